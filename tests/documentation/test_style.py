"""Rules of writing for docstrings, comments and names of tests, and for the prose of README and
docs."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("spacy_elmo", "project/scripts", "benchmarks", "wheels")
MODULES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
PAGES = [ROOT / name for name in ("README.md", "project/README.md", "CONTRIBUTING.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))
MAX_WORDS = 35

# A first line says what a function does or a class is, and is no fragment.
FRAGMENT = re.compile(
    r"(What|Where|Whoever|Those|As|Of|By|That|It|From|Whether|How|If|When|Who|Which|RETURNS)\b"
)
# Phrases that no reader should have to translate, and that have no second meaning.
PHRASES = re.compile(
    r"\b(told|whoever|nobody|anew|for good|in earnest|so many|of which|that of|is worth"
    r"|are worth|is none of|by hand|of theirs|are to be|is to be|it is told|wherever there)\b",
    re.IGNORECASE,
)


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _sentences(page: str) -> Iterator[str]:
    """Sentences of paragraphs and lists, without code, tables, HTML and headings."""
    page = re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE)
    page = re.sub(r"<!--.*?-->", "", page, flags=re.DOTALL)
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", page):
        if paragraph.lstrip().startswith(("|", "#", "<", "    ")):
            continue
        text = re.sub(r"`[^`]*`", "code", " ".join(paragraph.split()))
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
        yield from re.split(r"(?<=[.!?])\s+", text)


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_docstrings_and_comments(path):
    """Messages, too. One file has sentences for training."""
    source = path.read_text("utf8")
    wrong = PHRASES.findall(" ".join(source.split()))
    if path.name == "grammar.py":
        assert wrong == ["nobody", "told"]
        wrong = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node) or ""
            if FRAGMENT.match(docstring):
                wrong.append(f"fragment: {docstring.splitlines()[0]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_prose(path):
    wrong = []
    for sentence in _sentences(path.read_text("utf8")):
        if len(sentence.split()) > MAX_WORDS:
            wrong.append(f"{len(sentence.split())} words: {sentence}")
        found = PHRASES.search(sentence)
        if found:
            wrong.append(f"phrase '{found.group()}': {sentence}")
    assert not wrong, "\n".join(wrong)
