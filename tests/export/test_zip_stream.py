"""Archives that Python's own module reads."""

import io
import zipfile
import zlib

import numpy as np
import pytest

from spacy_elmo.export.zip_stream import ZipStream


def test_more_members_than_16_bits_can_count(tmp_path):
    with ZipStream(tmp_path / "x.zip") as archive:
        for i in range(70_000):
            archive.add(f"{i}", b"%d" % i)
        archive.close(b"a comment")
    assert [path.name for path in tmp_path.iterdir()] == ["x.zip"]
    with zipfile.ZipFile(tmp_path / "x.zip") as opened:
        assert opened.comment == b"a comment"
        assert opened.namelist() == [str(i) for i in range(70_000)]
        assert opened.read("69999") == b"69999"


def test_beyond_4_gb(tmp_path):
    """A sparse file: 5 GB before the second member take no room on the disk."""
    with ZipStream(tmp_path / "x.zip") as archive:
        archive.add("near", b"one")
        archive._file.seek(5 << 30)
        archive.add("far", b"two")
        archive.close()
    with zipfile.ZipFile(tmp_path / "x.zip") as opened:
        assert opened.testzip() is None
        assert [opened.read(name) for name in ("near", "far")] == [b"one", b"two"]
        assert opened.getinfo("far").header_offset == 5 << 30


def test_small_ones_are_plain_zip(tmp_path):
    """The same bytes as Python's, but for what each says of the system that made it."""
    buffer = io.BytesIO()
    np.save(buffer, np.arange(3))
    with ZipStream(tmp_path / "x.zip") as archive:
        archive.add("a.npy", buffer.getvalue())
        archive.add("empty", b"")
        archive.close()
    with zipfile.ZipFile(tmp_path / "x.zip") as opened:
        assert opened.testzip() is None
        assert {info.extract_version for info in opened.infolist()} == {20}
    np.testing.assert_array_equal(np.load(tmp_path / "x.zip")["a"], np.arange(3))


def test_one_member_too_large(tmp_path):
    with (
        ZipStream(tmp_path / "x.zip") as archive,
        pytest.raises(ValueError, match="'a' has 4,294,967,295 bytes"),
    ):
        archive.add_blocks("a", [], (1 << 32) - 1, zlib.crc32(b""))
