"""Files of sentences with roles."""

import gzip
import json

import pytest
import spacy
from spacy.util import registry

from spacy_elmo.tasks.srl_frames import read_frames

SENTENCES = [
    {
        "words": ["He", "gave", "up", "."],
        "frames": [{"pred": 1, "tags": ["B-ARG0", "B-V", "I-V", "O"], "sense": "give_up.07"}],
        "doc": "one",
    },
    {"words": ["Yes", "."], "frames": []},
]


def write(path, *lines):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf8") as file:
        file.writelines(line + "\n" for line in lines)
    return path


def read(path):
    reader = registry.get("readers", "spacy-elmo.SRLCorpus.v1")
    return list(reader(path=path)(spacy.blank("en")))


@pytest.mark.parametrize("name", ["roles.jsonl", "roles.jsonl.gz"])
def test_examples(tmp_path, name):
    examples = read(write(tmp_path / name, *map(json.dumps, SENTENCES), ""))
    assert [read_frames(example.reference) for example in examples] == [
        {1: [(0, 1, "ARG0"), (1, 3, "V")]},
        {},
    ]
    for example, sentence in zip(examples, SENTENCES):
        for doc in (example.predicted, example.reference):
            assert [token.text for token in doc] == sentence["words"]
            assert len(list(doc.sents)) == 1
        assert "srl" not in example.predicted.spans


def changed(**frame):
    sentence, (found,) = SENTENCES[0], SENTENCES[0]["frames"]
    return {**sentence, "frames": [{**found, **frame}]}


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("{", '"words": .*found {'),
        ('{"words": ["a"]}', '"frames"'),
        ('{"words": "ab", "frames": 1}', '"frames"'),
        ('{"words": [""], "frames": []}', '"words"'),
        (changed(pred=4), '"pred".*0 to 3, got 4'),
        (changed(pred="1"), '"pred".*got 1'),
        (changed(tags=["O"]), "4 words, but 1 tags of token 1"),
        (changed(tags=["O", "B-V", "I-ARG0", "O"]), "token 2: I-ARG0 follows B-V"),
        (changed(tags=["O", "B-V", "S-ARG0", "O"]), "'S-ARG0'"),
        (changed(tags=["O", "B-V", "B-", "O"]), "'B-'"),
        (
            {**SENTENCES[0], "frames": [*changed()["frames"], *changed(tags=["O"] * 4)["frames"]]},
            "token 1 has two different frames",
        ),
    ],
)
def test_wrong_lines_are_named(tmp_path, line, named):
    line = line if isinstance(line, str) else json.dumps(line)
    path = write(tmp_path / "roles.jsonl", json.dumps(SENTENCES[1]), line)
    with pytest.raises(ValueError, match=named) as error:
        read(path)
    assert str(error.value).startswith(f"{path}:2: ")
    assert "\n" not in str(error.value)


def test_equal_frames_count_once(tmp_path):
    twice = {**SENTENCES[0], "frames": SENTENCES[0]["frames"] * 2}
    (example,) = read(write(tmp_path / "roles.jsonl", json.dumps(twice)))
    assert len(example.reference.spans["srl"]) == 2
