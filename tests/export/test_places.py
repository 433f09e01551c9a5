"""Inputs and outputs that are the same file, or no regular files."""

import hashlib
import os
from dataclasses import replace

import pytest

from spacy_elmo.export.folders import LocalFolder, RemoteFolder, describe_files
from spacy_elmo.export.inputs import find_inputs
from spacy_elmo.export.parquet import read_parquet
from spacy_elmo.export.pieces import InputPiece
from spacy_elmo.files.errors import FullTemporaryFolder
from spacy_elmo.text.chunks import ChunkReader

from helpers.full_disk import room_for


def test_an_output_is_not_one_of_the_inputs(tmp_path):
    text = tmp_path / "a.txt"
    text.write_text("a\n")
    os.link(text, tmp_path / "same.txt")
    (tmp_path / "link.txt").symlink_to(text)
    for output in ("a.txt", "same.txt", "link.txt"):
        with pytest.raises(ValueError, match="a.txt is an input and the output"):
            find_inputs([text], tmp_path / output)
    # The output of an earlier run is beside its inputs.
    assert [file.name for file in find_inputs(str(tmp_path / "a*.txt"), tmp_path / "x")] == [
        "a.txt"
    ]
    # `link.txt` leads to `a.txt`, which is read once.
    assert len(find_inputs(tmp_path, tmp_path / "same.txt")) == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no FIFOs")
def test_a_fifo_in_place_of_a_shard_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "part-00000-of-00001.parquet")
    folder = LocalFolder(tmp_path)
    with pytest.raises(ValueError, match="not a regular file"):
        describe_files(tmp_path / "part-00000-of-00001.parquet")
    with pytest.raises(ValueError, match="not a regular file"):
        folder.read("part-00000-of-00001.parquet")


def test_a_full_temporary_folder_is_named(tmp_path):
    """The error names neither the input nor the output."""
    content = b"a b\n" * 100
    (tmp_path / "a.txt").write_bytes(content)
    sha256 = hashlib.sha256(content).hexdigest()
    piece = InputPiece(str(tmp_path / "a.txt"), stop=len(content), sha256=sha256)
    table = replace(piece, row_groups=(0, 1))
    message = "the folder for temporary files is full: .* TMPDIR"
    with room_for(200):
        for read in (
            piece.open,
            lambda: list(ChunkReader([piece], 1000, [False])),
            lambda: list(read_parquet(table, None)),
        ):
            with pytest.raises(FullTemporaryFolder, match=message):
                read()
        remote = RemoteFolder("memory://bucket")
        with pytest.raises(FullTemporaryFolder, match=message), remote.writing("x") as path:
            path.write_bytes(content)
    with piece.open() as file:
        assert file.read() == content
