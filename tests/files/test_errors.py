"""A file's name before what is wrong with it."""

import pytest

from spacy_elmo.export.places import InputPiece
from spacy_elmo.export.text_input import column_number
from spacy_elmo.files.errors import named_errors


def test_name_stands_before_the_message(tmp_path):
    cause = ValueError("a line is empty")
    with pytest.raises(ValueError, match=r"x\.txt: a line is empty$") as found:  # noqa: SIM117
        with named_errors(tmp_path / "x.txt"):
            raise cause
    assert found.value.__cause__ is cause


@pytest.mark.parametrize(("length", "end"), [(1000, ""), (10**6, r"\.\.\.")])
def test_long_messages_are_cut(length, end):
    with pytest.raises(ValueError, match=f"^x: x{{1000}}{end}$"), named_errors("x"):
        raise ValueError("x" * length)


def test_columns_are_named_in_short():
    names = "\t".join(["long" * 250_000, *(f"name{i}" for i in range(10_000))])
    with pytest.raises(ValueError, match="no column 'text', but .*, 9,996 others") as error:
        column_number(InputPiece("a.tsv"), names.encode(), "text")
    assert len(str(error.value)) < 1500


def test_only_the_kinds_that_are_named():
    with pytest.raises(ValueError, match="^x: 'key'$"), named_errors("x", (KeyError, TypeError)):
        raise KeyError("key")
    with pytest.raises(IndexError, match="^other$"), named_errors("x", KeyError):
        raise IndexError("other")
    with named_errors("x"):
        pass
