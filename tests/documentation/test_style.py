"""Rules of writing for docstrings, comments, names of tests, README and docs."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("spacy_elmo", "project/scripts", "benchmarks", "wheels")
MODULES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
TESTS = sorted((ROOT / "tests").rglob("*.py"))
PAGES = [ROOT / name for name in ("README.md", "project/README.md", "CONTRIBUTING.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))
MAX_WORDS = 35

# A first line says what a function does or a class is, and is no fragment.
FRAGMENT = re.compile(
    r"(What|Where|Whoever|Those|As|Of|By|That|It|From|Whether|How|If|When|Who|Which|RETURNS)\b"
)
COMMENT = re.compile(r"(?:^|\s)# .*$", re.MULTILINE)
# A test's name says what is expected, and is no fragment either.
NAME = re.compile(
    r"test_(what|where|whoever|those|as|of|by|that|its?|from|whether|how|if|when|who|which)_"
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


def _docstrings(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the name and docstring of the module, of its classes and its functions."""
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        yield getattr(node, "name", ""), ast.get_docstring(node) or ""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):  # Most nodes are expressions, which define nothing.
            yield from _docstrings(child)


def _fragments(docstrings: Iterable[tuple[str, str]]) -> list[str]:
    return [f"fragment: {text.splitlines()[0]}" for _, text in docstrings if FRAGMENT.match(text)]


def test_docstrings_and_comments():
    """Messages follow the rules, too. One file has sentences for training."""
    wrong = []
    for path in MODULES:
        source = path.read_text("utf8")
        found = PHRASES.findall(" ".join(source.split()))
        if path.name == "grammar.py":
            assert found == ["nobody", "told"]
            found = []
        found += _fragments(_docstrings(ast.parse(source)))
        wrong += [f"{_name(path)}: {one}" for one in found]
    assert not wrong, "\n".join(wrong)


def test_docstrings_comments_and_names_of_tests():
    """Messages of other programs and sentences for models, in the code, follow no rules."""
    wrong = []
    for path in TESTS:
        source = path.read_text("utf8")
        docstrings = list(_docstrings(ast.parse(source)))
        texts = [text for _, text in docstrings] + COMMENT.findall(source)
        found = [f"phrase: {one}" for text in texts for one in PHRASES.findall(text)]
        found += _fragments(docstrings)
        found += [f"name: {name}" for name, _ in docstrings if NAME.match(name)]
        if path.name != "__init__.py" and not docstrings[0][1]:
            found.append("the module has no docstring: say what its tests protect")
        wrong += [f"{_name(path)}: {one}" for one in found]
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
