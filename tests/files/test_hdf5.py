"""HDF5 on a full disk: an error, while HDF5 itself would end the process. Attributes that are
safe."""

import errno
import io
import os
import sys

import h5py
import numpy as np
import pytest

from spacy_elmo.files.hdf5 import GuardedFile, guarded_hdf5, text_attribute

from helpers.commands import run_python
from helpers.full_disk import room_for

LIMIT = 5000
has_limit = pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")


@pytest.mark.parametrize("oldest", [h5py.h5f.LIBVER_EARLIEST, h5py.h5f.LIBVER_V18])
def test_the_same_content_is_written_as_the_same_bytes(tmp_path, oldest):
    """HDF5 1.8 would also write the time."""
    values = np.arange(1000, dtype="f4").reshape(10, 100)
    with guarded_hdf5(tmp_path / "x", oldest) as (file, check):
        file.create_group("a").attrs["name"] = "naïve"
        file["a/b"] = values
        check()
    with h5py.File(tmp_path / "x", "r") as file:
        np.testing.assert_array_equal(file["a/b"][()], values)
        assert file["a"].attrs["name"] == "naïve"
        times = [h5py.h5g.get_objinfo(file[name].id).mtime for name in ("/", "a", "a/b")]
    assert times == [0, 0, 0]


@has_limit
@pytest.mark.parametrize("checked", [True, False])
def test_a_full_disk_is_an_error_when_the_file_is_closed(tmp_path, checked):
    """Until then everything that was written can be read."""
    values = np.arange(5000.0)
    failing = pytest.raises(OSError, match=os.strerror(errno.EFBIG))
    with failing as found, room_for(LIMIT), guarded_hdf5(tmp_path / "x") as (file, check):
        file["a"] = values
        file.flush()
        np.testing.assert_array_equal(file["a"][()], values)
        if checked:
            check()
            pytest.fail("nothing was raised")
    assert found.value.errno == errno.EFBIG
    assert (tmp_path / "x").stat().st_size <= LIMIT


@has_limit
@pytest.mark.parametrize("limit", [LIMIT, 10**9])
@pytest.mark.parametrize("seed", range(5))
def test_a_guarded_file_reads_like_a_file_in_memory(tmp_path, seed, limit):
    """On a full disk, too, the last write is read back, and other bytes are zeros."""
    rng, memory = np.random.default_rng(seed), io.BytesIO()
    with room_for(limit), GuardedFile(tmp_path / "x", "wb+") as guarded:
        for _ in range(200):
            place, data = int(rng.integers(2 * LIMIT)), rng.bytes(int(rng.integers(1, LIMIT)))
            for file in (guarded, memory):
                file.seek(place)
                assert file.write(data) == len(data)
            assert guarded.tell() == memory.tell()
            place, size = int(rng.integers(3 * LIMIT)), int(rng.integers(LIMIT))
            found, expected = bytearray(b"?" * size), bytearray(size)
            assert (guarded.seek(place), guarded.readinto(found)) == (memory.seek(place), size)
            memory.readinto(expected)
            assert found == expected
        if limit == LIMIT:
            with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
                guarded.check()
            return
        guarded.check()
        assert guarded.truncate(LIMIT) == LIMIT
    assert (tmp_path / "x").read_bytes() == memory.getvalue()[:LIMIT]


@pytest.mark.processes
@has_limit
def test_the_process_ends_after_a_full_disk(tmp_path):
    """HDF5 would free its access to a Python object after Python has ended."""
    code = f"""if True:
        import resource, sys
        from pathlib import Path
        from spacy_elmo.files.hdf5 import guarded_hdf5

        resource.setrlimit(resource.RLIMIT_FSIZE, ({LIMIT}, {LIMIT}))
        try:
            with guarded_hdf5(Path(sys.argv[1])) as (file, check):
                file["a"] = [0.0] * 5000
        except OSError:
            print("full")
    """
    assert run_python("-c", code, tmp_path / "x") == "full\n"


TEXTS = ["naïve", b"ascii", np.bytes_(b"fixed"), "a" * 99]
VALUES = {
    "an array of names of one string": ["a"] * 3000,
    "an array of one string": ["a"],
    "an array of texts": np.array([b"a" * 50] * 3),
    "a number": 3,
    "numbers": np.zeros(5),
    "nothing": h5py.Empty("S5"),
    "a type of many members": np.zeros((), [(f"m{i}", "f4") for i in range(100)]),
    "a reference": h5py.Reference(),
    "a text that is too long": "a" * 101,
    "a field that is too long": np.bytes_(b"a" * 101),
}


@pytest.mark.parametrize("value", TEXTS)
def test_attributes_of_text_are_read(value):
    with h5py.File(io.BytesIO(), "w") as file:
        file.attrs["text"] = value
        expected = value if isinstance(value, str) else value.decode()
        assert text_attribute(file, "text", 100) == expected
        assert text_attribute(file, "other", 100) is None


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_other_attributes_are_not_read(value, monkeypatch):
    """An array of references to one string of 1 MB would take gigabytes."""
    with h5py.File(io.BytesIO(), "w") as file:
        file.attrs["text"] = value
        if not isinstance(value, str):  # Only reading shows the length of a string.
            monkeypatch.delattr(h5py.AttributeManager, "__getitem__")
        with pytest.raises(ValueError, match="not one string|more than 100 characters"):
            text_attribute(file, "text", 100)
