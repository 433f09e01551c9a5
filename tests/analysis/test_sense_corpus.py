"""Corpora with WordNet senses read alike in every format, and broken files are named."""

import gzip
import json
import shutil

import pytest

from spacy_elmo.analysis.sense_corpus import FirstSenses, read_sense_corpus, word_of

from helpers.golden import WORDNET
from helpers.models import check_refused

XML = """<?xml version="1.0" encoding="UTF-8" ?>
<corpus lang="en"><text id="senseval2.d000"><sentence id="senseval2.d000.s000">
<wf lemma="the" pos="DET">The</wf>
<instance id="senseval2.d000.s000.t000" lemma="old_age" pos="NOUN">old age</instance>
<instance id="senseval2.d000.s000.t001" lemma="be" pos="VERB">is</instance>
</sentence><sentence id="senseval2.d000.s001"><wf lemma="none" pos="NOUN">None</wf></sentence>
</text>
<text id="semeval2007.d001"><sentence id="semeval2007.d001.s000">
<instance id="semeval2007.d001.s000.t000" lemma="peculiar" pos="ADJ">Peculiar</instance>
</sentence></text></corpus>
"""
KEYS = """senseval2.d000.s000.t000 old_age%1:28:00::
senseval2.d000.s000.t001 be%2:42:03:: be%2:42:06::
semeval2007.d001.s000.t000 peculiar%5:00:00:specific:00
"""
OLD, IS, PECULIAR = (line.split()[1:] for line in KEYS.splitlines())
FOUND = [(1, 3, "old_age%n", tuple(OLD)), (3, 4, "be%v", tuple(IS))]
EXPECTED = [
    (["The", "old", "age", "is"], FOUND, "senseval2"),
    (["Peculiar"], [(0, 1, "peculiar%a", tuple(PECULIAR))], "semeval2007"),
]
LINES = [
    {"doc": "senseval2/d000", "words": ["The", "old_age", "is"], "keys": [None, OLD, IS]},
    {"doc": "senseval2/d000", "words": ["None", "_"], "keys": [None, None]},
    {"doc": "semeval2007/d1", "words": ["Peculiar"], "keys": [PECULIAR]},
]


@pytest.mark.parametrize("encoding", ["utf8", "utf-8-sig"])
def test_every_format_gives_the_same_sentences(tmp_path, encoding):
    content = "\n".join(map(json.dumps, LINES)) + "\n"
    (tmp_path / "a.jsonl").write_text(content, encoding)
    with gzip.open(tmp_path / "a.jsonl.gz", "wt", encoding=encoding) as file:
        file.write(content)
    (tmp_path / "a.data.xml").write_text(XML, encoding)
    named = "a.gold.key.txt into the same folder"
    check_refused(lambda: read_sense_corpus(tmp_path / "a.data.xml"), named)
    (tmp_path / "a.gold.key.txt").write_text(KEYS, encoding)
    for name in ("a.data.xml", "a.jsonl", "a.jsonl.gz"):
        assert read_sense_corpus(tmp_path / name) == EXPECTED, name
    check_refused(lambda: read_sense_corpus(tmp_path / "b.jsonl"), "there is no file")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "x", "name must end in .data.xml or .jsonl"),
        ("a.data.xml", "<a><b></a>", "a.data.xml is not a corpus with word senses: mismatched tag"),
        ("a.data.xml", XML.replace("t001", "t009"), "no key 'senseval2.d000.s000.t009'"),
        ("a.jsonl", "{", "a.jsonl is not a corpus with word senses"),
        ("a.jsonl", '["a"]', 'line 1: the value should be an object, got ["a"]'),
        ("a.jsonl", '{"words": []}', 'line 1: "keys" is missing'),
        ("a.jsonl", '\n{"words": [1], "keys": [], "doc": ""}', 'line 2: "words"[0] should be a'),
        ("a.jsonl", '\n{"words": [], "keys": [], "doc": 1}', 'line 2: "doc" should be a valid'),
        ("a.jsonl", '{"words": ["a"], "keys": [], "doc": ""}', "line 1: a sentence has 1 words"),
        ("a.jsonl", '{"words": ["a"], "keys": [["b"]], "doc": ""}', "line 1: 'b' is not a sense"),
        ("a.jsonl", '{"words": ["a"], "keys": [null], "doc": ""}', "no word has a sense"),
        ("a.jsonl.gz", "no gzip", "a.jsonl.gz is not a corpus with word senses"),
    ],
)
def test_broken_files_are_named(tmp_path, name, content, message):
    (tmp_path / "a.gold.key.txt").write_text(KEYS, "utf8")
    (tmp_path / name).write_text(content, "utf8")
    check_refused(lambda: read_sense_corpus(tmp_path / name), message)


# The keys are those of index.sense of WordNet 3.0.
SENSES = {
    "bank%n": "bank%1:14:02::",
    "hold%v": "hold%2:40:31::",
    "peculiar%a": "peculiar%5:00:00:specific:00",
    "specific%a": "specific%3:00:00::",
    "well%r": "well%4:02:00::",
}


def test_first_senses_of_wordnet(tmp_path):
    folder = shutil.copytree(WORDNET, tmp_path / "wordnet")
    senses = FirstSenses(folder)
    assert {word: senses.find(word) for word in SENSES} == SENSES
    assert [word_of(sense) for sense in SENSES.values()] == [*SENSES]
    assert senses.find("well%n") is senses.find("unheard%n") is None
    (folder / "data.adv").unlink()
    check_refused(lambda: FirstSenses(folder), "data.adv. Give the folder of WordNet")


@pytest.mark.parametrize("key", ["bank", "bank%", "bank%7", "bank%6:00:00::", "%n"])
def test_text_that_is_no_sense_key_is_refused(key):
    check_refused(lambda: word_of(key), f"'{key}' is not a sense key")
