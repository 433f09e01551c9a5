"""Text that is printed, whatever it is made of."""

import ast
import unicodedata
from pathlib import Path

import pytest

from spacy_elmo.files import progress_bar
from spacy_elmo.files.terminal import SafePrinter, echo, one_line, printable

PACKAGE = Path(__file__).parents[2] / "spacy_elmo"
TURNING = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
NASTY = "a\x1b[2Jb\x1b]0;title\x07\r\x9b1m\u202ec\udcff"
SHOWN = r"a\x1b[2Jb\x1b]0;title\x07\r\x9b1m\u202ec\udcff"


def acts(character):
    """Whether a terminal does something else than to show it, by the tables of Unicode."""
    kind = unicodedata.category(character)
    return kind in ("Cc", "Cs") or unicodedata.bidirectional(character) in TURNING


def test_all_characters():
    """Those that act are shown as `repr` shows them."""
    every = "".join(map(chr, range(0x110000)))
    wanted = "".join(
        repr(c)[1:-1] if acts(c) and c not in "\n\t" else c for c in map(chr, range(0x110000))
    )
    assert printable(every) == wanted
    assert one_line("a\n\tb") == r"a\n\tb"


def test_printers(capsys):
    printer = SafePrinter()
    echo(NASTY)
    printer.text(NASTY, NASTY)
    printer.good(NASTY)
    printer.warn(ValueError(NASTY))
    with pytest.raises(SystemExit):
        printer.fail(NASTY, exits=1)
    printer.divider(NASTY)
    printer.table({NASTY: 1})
    printer.row((NASTY, 1))
    printer.table([(NASTY, 2.5), ("b\nc\td", "")], header=(NASTY, "x"), divider=True)
    shown = capsys.readouterr().out
    assert shown.count(SHOWN) == 11
    assert "b\\nc\\td" in shown
    assert "\x1b[2J" not in shown
    assert not set("\x07\r\x9b\u202e\udcff") & set(shown)


def test_progress_bars(capsys):
    with progress_bar(3, NASTY, disable=False):
        pass
    shown = capsys.readouterr().err
    assert SHOWN in shown
    assert "\x1b[2J" not in shown


def unsafe_prints(file):
    """What a module prints otherwise than by `files/terminal.py`. JSON escapes what a terminal
    would act on."""
    tree = ast.parse(file.read_text("utf8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "wasabi":
            yield f"{file.name}, line {node.lineno}: wasabi"
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print":
            printed = ast.unparse(node.args[0])
            is_json = printed.startswith("srsly.json_dumps(") or printed == "content"
            if not (is_json or isinstance(node.args[0], ast.Constant)):
                yield f"{file.name}, line {node.lineno}: {printed}"


def test_nothing_is_printed_in_another_way():
    files = [file for file in PACKAGE.rglob("*.py") if file.name != "terminal.py"]
    assert len(files) > 200
    assert [found for file in files for found in unsafe_prints(file)] == []


def test_columns_of_long_cells_are_aligned(capsys):
    path = "corpora/" + "x" * 60 + ".txt"
    SafePrinter(no_print=False).table([(path, "1.5"), ("b", "22.25")], header=("file", "mean"))
    lines = [line for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert {line.index(last) for line, last in zip(lines, ("mean", "1.5", "22.25"))} == {
        len(path) + 3
    }
