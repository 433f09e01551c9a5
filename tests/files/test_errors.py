"""A file's name before what is wrong with it."""

import pytest

from spacy_elmo.files.errors import named_errors


def test_name_stands_before_the_message(tmp_path):
    cause = ValueError("a line is empty")
    with pytest.raises(ValueError, match=r"x\.txt: a line is empty$") as found:  # noqa: SIM117
        with named_errors(tmp_path / "x.txt"):
            raise cause
    assert found.value.__cause__ is cause


def test_only_the_kinds_that_are_named():
    with pytest.raises(ValueError, match="^x: 'key'$"), named_errors("x", (KeyError, TypeError)):
        raise KeyError("key")
    with pytest.raises(IndexError, match="^other$"), named_errors("x", KeyError):
        raise IndexError("other")
    with named_errors("x"):
        pass
