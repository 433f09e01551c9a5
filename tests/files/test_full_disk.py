"""What is said where there is no more room, however a library passes the system's error on."""

import errno
import os
import re
from pathlib import Path

import pytest
import torch

from spacy_elmo.files import atomic_stream, full_disk
from spacy_elmo.text.prepare import prepare

FULL = [errno.ENOSPC, errno.EDQUOT, errno.EFBIG]


def system_error(number):
    return OSError(number, os.strerror(number), "some.file")


def raise_in(output, error, context=None, **settings):
    """Raise an error, while another is handled or not, where `output` is written."""
    with full_disk(output, **settings):
        if context is None:
            raise error
        try:
            raise context
        except OSError:
            raise error  # noqa: B904  (as PyTorch does, the other is its context)


@pytest.mark.parametrize("number", FULL)
def test_error_of_the_system(number):
    reason = os.strerror(number)
    message = re.escape(f"out.hdf5 cannot be written: {reason}. Make room and go on.")
    with pytest.raises(OSError, match=f"^{message}$"):
        raise_in(Path("out.hdf5"), system_error(number), advice="go on")


@pytest.mark.parametrize("number", FULL)
@pytest.mark.parametrize("context", [True, False])
def test_error_of_a_library(number, context):
    """It has the system's as its context, or in its message alone."""
    given = system_error(number) if context else None
    error = RuntimeError("write failed") if context else OSError(f"errno: {os.strerror(number)}!")
    with pytest.raises(OSError, match=r"^out cannot be written: .*\. Make room and run again"):
        raise_in("out", error, given)


@pytest.mark.parametrize("error", [system_error(errno.EIO), RuntimeError("shapes"), KeyError("x")])
def test_other_errors_pass(error):
    with pytest.raises(type(error)) as found:
        raise_in("out", error)
    assert found.value is error


def test_other_error_of_the_system_in_a_librarys_place():
    error = system_error(errno.EIO)
    with pytest.raises(OSError, match="some.file") as found:
        raise_in("out", RuntimeError("write failed"), error)
    assert found.value is error


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_full_device():
    refused = pytest.raises(OSError, match="^out cannot be written: No space left on device")
    with Path("/dev/full").open("wb", buffering=0) as file:
        with refused, full_disk("out"):
            file.write(b"x")
        with refused, full_disk("out"):
            torch.save(torch.zeros(1000), file)


@pytest.mark.parametrize("number", FULL)
def test_error_of_an_open_file_has_its_name(tmp_path, number):
    """Not even an output without advice fails with the system's number only."""
    path, reason = tmp_path / "x.json", os.strerror(number)
    with pytest.raises(OSError, match=re.escape(f"{reason}: '{path}'")), atomic_stream(path):
        raise OSError(number, reason)
    assert list(tmp_path.iterdir()) == []


def test_no_room_for_the_folder_of_a_corpus(tmp_path, monkeypatch):
    def make_ours(folder):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "a.txt").write_text("a b\n")
    monkeypatch.setattr("spacy_elmo.text.prepare.make_ours", make_ours)
    with pytest.raises(OSError, match="corpus cannot be written: No space left on device. Make"):
        prepare(tmp_path / "a.txt", tmp_path / "corpus", n_process=1)
