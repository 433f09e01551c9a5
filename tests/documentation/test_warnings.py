"""The messages of docs/warnings.md are messages of the package."""

import re

import pytest

from helpers.page_blocks import ROOT

PAGE = (ROOT / "docs" / "warnings.md").read_text("utf8")
MESSAGE = re.compile(r"^\| `([^`]+)`(?! with| \(spaCy| \(`Uni)", re.MULTILINE)
# Placeholders: words in capitals, `X` in quotes, and what is left out.
GAP = re.compile(
    r"'?\b(?:[A-Z]{2,}|[XY])\b'?|'\w+'|\.\.\.|only=|model-best|min_count|checkpoints|vocab\.txt"
)


def source() -> str:
    """Return the package's code with strings that go on in the next line joined."""
    files = sorted((ROOT / "spacy_elmo").rglob("*.py"))
    text = "\n".join(file.read_text("utf8") for file in files)
    return re.sub(r'"\s*\n\s*f?"', "", text)


@pytest.fixture(scope="module")
def code():
    return source()


@pytest.mark.parametrize("message", MESSAGE.findall(PAGE.split("## Warnings in a pipeline")[1]))
def test_message(message, code):
    pieces = [piece.strip(" :,;()[]") for piece in GAP.split(message)]
    longest = max(pieces, key=len)
    assert len(longest) > 5
    if longest not in code:  # an assert would print all code
        pytest.fail(f"no message of the package contains {longest!r}")
