"""A bar that is short in a log, and leaves nothing on a terminal where it is not to stay."""

import io
import sys

import pytest
import tqdm.std

from spacy_elmo.files import progress_bar


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def shown(monkeypatch):
    """Runs a bar of 1,000 steps a second apart, by a clock of its own: what it writes."""

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


def test_log_has_a_line_a_minute(shown):
    text = shown(io.StringIO())
    assert "words" in text
    assert "1.00k/1.00k" in text  # it stays, whole
    assert 1000 // 60 <= text.count("\r") <= 1000 // 60 + 2


def test_log_has_none_that_is_not_to_stay(shown):
    assert shown(io.StringIO(), in_logs=False) == ""


@pytest.mark.parametrize("stays", [True, False])
def test_terminal_is_told_at_once(shown, stays):
    text = shown(Terminal(), in_logs=stays)
    assert "words" in text and text.count("\r") > 900
    assert stays or not any(part.strip() for part in text.split("\r")[-2:])


def test_other_options_win(shown):
    assert "1000/1000" in shown(io.StringIO(), unit_scale=False)
    assert isinstance(progress_bar(None, disable=True), tqdm.std.tqdm)
