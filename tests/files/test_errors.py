"""Errors that name the file first, and advice for a full disk."""

import errno
import os
import re
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from spacy_elmo.export.pieces import InputPiece
from spacy_elmo.export.text_input import column_number
from spacy_elmo.files import atomic_stream, full_disk
from spacy_elmo.files.errors import named_errors

from helpers.prepared import prepare


def test_the_file_comes_before_the_message(tmp_path):
    cause = ValueError("a line is empty")
    with pytest.raises(ValueError, match=r"x\.txt: a line is empty$") as found:  # noqa: SIM117
        with named_errors(tmp_path / "x.txt"):
            raise cause
    assert found.value.__cause__ is cause


def test_long_messages_are_cut():
    for length, end in ((1000, ""), (10**6, r"\.\.\.")):
        with pytest.raises(ValueError, match=f"^x: x{{1000}}{end}$"), named_errors("x"):
            raise ValueError("x" * length)


def test_long_lists_of_columns_are_cut():
    names = "\t".join(["long" * 250_000, *(f"name{i}" for i in range(10_000))])
    with pytest.raises(ValueError, match="no column 'text', but .*, 9,996 others") as error:
        column_number(InputPiece("a.tsv"), names.encode(), "text")
    assert len(str(error.value)) < 1500


def test_only_the_given_kinds_of_errors_are_named():
    with pytest.raises(ValueError, match="^x: 'key'$"), named_errors("x", (KeyError, TypeError)):
        raise KeyError("key")
    with pytest.raises(IndexError, match="^other$"), named_errors("x", KeyError):
        raise IndexError("other")
    with named_errors("x"):
        pass


FULL = [errno.ENOSPC, errno.EDQUOT, errno.EFBIG]


def system_error(number):
    return OSError(number, os.strerror(number), "some.file")


OTHER, LIBRARY = system_error(errno.EIO), RuntimeError("write failed")


def raise_in(output, error, context=None, **settings):
    """Raise an error while `output` is written. PyTorch's errors may have a context."""
    error.__context__ = context
    with full_disk(output, **settings):
        raise error


@pytest.mark.parametrize("number", FULL)
def test_errors_of_a_full_disk_get_advice(number):
    """The system raises the error, or a library has it as its context or in its message."""
    reason = os.strerror(number)
    message = re.escape(f"out.hdf5 cannot be written: {reason}. Make room and go on.")
    system, unnumbered = system_error(number), OSError(f"errno: {reason}!")
    for error in ([system], [LIBRARY, system], [unnumbered]):
        with pytest.raises(OSError, match=f"^{message}$"):
            raise_in(Path("out.hdf5"), *error, advice="go on")


@pytest.mark.parametrize("errors", [[OTHER], [LIBRARY, OTHER], [LIBRARY], [KeyError("x")]])
def test_other_errors_do_not_change(errors):
    """One is an error of the system raised in place of a library's."""
    with pytest.raises(type(errors[-1])) as found:
        raise_in("out", *errors)
    assert found.value is errors[-1]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_device_gives_the_advice():
    refused = pytest.raises(
        OSError, match="^out cannot .*: No space left on device. Make room and run"
    )
    with Path("/dev/full").open("wb", buffering=0) as file:
        with refused, full_disk("out"):
            file.write(b"x")
        with refused, full_disk("out"):
            torch.save(torch.zeros(1000), file)


@pytest.mark.parametrize("number", FULL)
def test_an_error_of_an_open_file_names_it(tmp_path, number):
    """This is true for outputs without advice, too."""
    path, reason = tmp_path / "x.json", os.strerror(number)
    with pytest.raises(OSError, match=re.escape(f"{reason}: '{path}'")), atomic_stream(path):
        raise OSError(number, reason)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.corpora
def test_a_full_disk_at_the_folder_of_a_corpus_is_named(tmp_path, monkeypatch):
    error = Mock(side_effect=system_error(errno.ENOSPC))
    (tmp_path / "a.txt").write_text("a b\n")
    monkeypatch.setattr("spacy_elmo.text.prepare.make_ours", error)
    with pytest.raises(OSError, match="corpus cannot be written: No space left on device. Make"):
        prepare(tmp_path / "a.txt", tmp_path / "corpus", n_process=1)
