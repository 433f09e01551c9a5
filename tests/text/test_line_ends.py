"""Words cut at line ends are joined as the rest of the text writes them, in any language."""

# ruff: noqa: RUF001 (the long s of old prints)

import pytest

from spacy_elmo.text.line_ends import LineEnds

# The first line shows how the words are written within a line.
TEXTS = {
    "French": (
        "La partie a été peut-être dit-il longue, dit-elle, répond-il. Saint-Malo, quelquefois.",
        {
            "la par-\ntie": "la partie",
            "C'est peut-\nêtre": "C'est peut-être",
            "PEUT-\nÊTRE": "PEUT-ÊTRE",
            "à Saint-\nMalo": "à Saint-Malo",
            "dit-\nelle": "dit-elle",
            # The text has no "murmura-il", but other words before "-il".
            "dit-\nil, répond-\nil, murmura-\nil": "dit-il, répond-il, murmura-il",
            "inconce-\nvable": "inconcevable",
            "REVO-\nLUTION": "REVOLUTION",
        },
    ),
    "German": (
        "Die Hauptſtadt, Vor- und Nachteile, Stein- oder Holzbau, ausreißen, Nord-See.",
        {
            "Haupt-\nſtadt": "Hauptſtadt",
            "Haupt-\nund Nebenſache": "Haupt-\nund Nebenſache",
            "Garten-\noder Feldbau": "Garten-\noder Feldbau",
            "Nord-\nSee, Oſt⸗\nSee": "Nord-See, Oſt⸗See",
            "Ausrei-\nßen": "Ausreißen",
            "Bru\u0364-\ncke, Waſ=\nſer": "Bru\u0364cke, Waſſer",
            "Thei\u00ad\nle, Neben⸗ \n  ſache": "Theile, Nebenſache",
            "Oſt¬\nSee, Thei\u00adle": "Oſt-See, Theile",
        },
    ),
    "English": (
        "The kind-hearted to-day, pre- and postwar, understand. A twenty-one.",
        {
            "kind-\nhearted": "kind-hearted",
            "under-\nstand": "understand",
            "inter-\nand national": "inter-\nand national",
            "Anglo-\nSaxon": "Anglo-Saxon",
            "1840-\n1850": "1840-1850",
        },
    ),
}
CASES = [(text, *case) for text, cases in TEXTS.values() for case in cases.items()]


@pytest.mark.parametrize(("text", "cut", "expected"), CASES)
def test_a_word_is_written_as_within_lines(text, cut, expected):
    line_ends = LineEnds()
    for part in (text, cut):
        line_ends.count(part)
    assert line_ends.join(f"{text}\n\n{cut}\n") == f"{text}\n\n{expected}\n"


@pytest.mark.parametrize(
    "text",
    ["Ende-\n\nab", "er kam -\nund ging", "a - b", "l'-\nhomme", "-\nab", "dit-il", "a =\nb"],
)
def test_other_hyphens_stay(text):
    line_ends = LineEnds()
    line_ends.count(text)
    assert line_ends.join(text) == text
    assert not line_ends.n_found


def test_the_more_frequent_form_wins_and_later_text_counts():
    line_ends = LineEnds()
    line_ends.count("watch-dog watch-dog watchdog watch-\ndog")
    assert line_ends.join("a watch-\ndog") == "a watch-dog"
    line_ends.count("Watchdog watchdog")
    assert line_ends.join("a watch-\ndog") == "a watchdog"
    assert dict(line_ends.n_found) == {"hyphenated": 1, "joined": 1}


def test_soft_hyphens_between_other_characters_are_removed():
    assert LineEnds().join("a \u00ad b\u00ad.") == "a  b."
