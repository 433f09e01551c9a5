"""Printed text and progress bars: no text controls the terminal, a bar is short in a log, and it
disappears from a terminal if it should."""

import io
import re
import sys
import unicodedata
from pathlib import Path

import pytest
import tqdm.std

from spacy_elmo.files import progress_bar
from spacy_elmo.files.terminal import SafePrinter, echo, one_line, printable

PACKAGE = Path(__file__).parents[2] / "spacy_elmo"
TURNING = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
NASTY = "a\x1b[2Jb\x1b]0;title\x07\r\x9b1m\u202ec\udcff"
SHOWN = r"a\x1b[2Jb\x1b]0;title\x07\r\x9b1m\u202ec\udcff"


# Marks of Unicode's category of format that are visible, or that words and emojis need.
SEEN = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
SEEN |= {*range(0x13430, 0x13460), 0x200C, 0x200D}


def acts(character):
    """Return whether a terminal would act on a character, by the tables of Unicode."""
    kind, number = unicodedata.category(character), ord(character)
    turns = unicodedata.bidirectional(character) in TURNING
    is_hidden = (kind == "Cf" and number not in SEEN) or number in range(0xE0000, 0xE1000)
    return kind in ("Cc", "Cs", "Zl", "Zp") or turns or is_hidden


def escaped(character):
    return character.encode("unicode_escape").decode()


def test_characters_that_act_are_escaped():
    every = [chr(number) for number in range(0x110000)]
    wanted = (escaped(c) if acts(c) and c not in "\n\t" else c for c in every)
    assert printable("".join(every)) == "".join(wanted)
    assert one_line("a\n\tb") == r"a\n\tb"


def test_all_printers_escape_text(capsys):
    printer = SafePrinter()
    echo(NASTY)
    printer.text(NASTY, NASTY)
    printer.good(NASTY)
    printer.warn(ValueError(NASTY))
    with pytest.raises(SystemExit):
        printer.fail(NASTY, exits=1)
    printer.table([(NASTY, 2.5), ("b\nc\td", "")], header=(NASTY, "x"), divider=True)
    with progress_bar(3, NASTY, disable=False):
        pass
    shown, bar = capsys.readouterr()
    assert (shown.count(SHOWN), SHOWN in bar) == (8, True)
    assert "b\\nc\\td" in shown
    assert "\x1b[2J" not in shown + bar
    assert not set("\x07\r\x9b\u202e\udcff") & set(shown)


def test_other_modules_print_only_safe_text():
    """JSON and pages escape characters on which a terminal would act."""
    other = re.compile(r"\bprint\((?!srsly\.json_dumps\(|content\)|\s*\")|(from|import) wasabi")
    files = [file for file in PACKAGE.rglob("*.py") if file.name != "terminal.py"]
    assert len(files) > 200
    assert [file for file in files if other.search(file.read_text("utf8"))] == []


def test_columns_of_long_cells_are_aligned(capsys):
    path = "corpora/" + "x" * 60 + ".txt"
    SafePrinter(no_print=False).table([(path, "1.5"), ("b", "22.25")], header=("file", "mean"))
    found = re.findall(r"^(?:file|corpora\S+|b) +", capsys.readouterr().out, re.MULTILINE)
    assert list(map(len, found)) == [len(path) + 3] * 3


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def shown(monkeypatch):
    """Return a function that runs a bar of 1,000 steps, a second apart by its own clock, and
    returns what it writes."""

    def run(stream, **options):
        seconds = [0.0]
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(tqdm.std, "time", lambda: seconds[0])
        with progress_bar(1000, "words", " w", **options) as bar:
            for _ in range(1000):
                seconds[0] += 1
                bar.update()
        return stream.getvalue()

    return run


def test_a_log_has_a_line_per_minute(shown):
    text = shown(io.StringIO())
    assert "words" in text
    assert "1.00k/1.00k" in text  # it stays, whole
    assert 1000 // 60 <= text.count("\r") <= 1000 // 60 + 2
    assert "1000/1000" in shown(io.StringIO(), unit_scale=False)
    assert shown(io.StringIO(), in_logs=False) == ""


@pytest.mark.parametrize("stays", [True, False])
def test_a_terminal_shows_each_step(shown, stays):
    text = shown(Terminal(), in_logs=stays)
    assert "words" in text and text.count("\r") > 900
    assert stays or not any(part.strip() for part in text.split("\r")[-2:])
