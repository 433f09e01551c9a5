"""Files of documents with coreference."""

import gzip
import json

import pytest
import spacy
from spacy.tokens import DocBin
from spacy.util import registry

from spacy_elmo.tasks.coref_clusters import read_clusters
from spacy_elmo.tasks.coref_corpus import read_coref

DOCUMENTS = [
    {
        "words": ["Ann", "saw", "Bob", ".", "She", "ran", "."],
        "sentence_starts": [0, 4],
        "clusters": [[[4, 5], [0, 1]], [[2, 3]]],
        "id": "one",
    },
    {"words": ["Yes", "."], "clusters": []},
    {"words": [], "clusters": []},
]


def write(path, *lines):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf8") as file:
        file.writelines(line + "\n" for line in lines)
    return path


def read(path):
    reader = registry.get("readers", "spacy-elmo.CorefCorpus.v1")
    return list(reader(path=path)(spacy.blank("en")))


@pytest.fixture(params=["docs.jsonl", "docs.jsonl.gz", "docs.spacy"])
def path(request, tmp_path):
    path = write(tmp_path / "docs.jsonl", *map(json.dumps, DOCUMENTS), "")
    if request.param.endswith(".gz"):
        return write(tmp_path / request.param, path.read_text("utf8"))
    if request.param.endswith(".spacy"):
        docs = list(read_coref(path, spacy.blank("en").vocab))
        DocBin(docs=docs).to_disk(tmp_path / request.param)
    return tmp_path / request.param


def test_examples(path):
    examples = read(path)
    clusters = [read_clusters(example.reference) for example in examples]
    assert clusters == [[[(0, 1), (4, 5)], [(2, 3)]], [], []]
    for example, document in zip(examples, DOCUMENTS):
        for doc in (example.predicted, example.reference):
            assert [token.text for token in doc] == document["words"]
        assert not example.predicted.spans
    for doc in (examples[0].predicted, examples[0].reference):
        assert [sentence.start for sentence in doc.sents] == [0, 4]
    assert not examples[1].predicted.has_annotation("SENT_START")


def changed(**values):
    return {**DOCUMENTS[0], **values}


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("{", '"words": .*found {'),
        ("[1]", '"words": .*found'),
        ({"words": ["a"]}, '"clusters"'),
        (changed(words=["", *"abcdef"]), '"words"'),
        (changed(clusters=[[0, 1]]), '"clusters"'),
        (changed(clusters=[[[0, 1, 2]]]), '"clusters"'),
        (changed(clusters=[[["0", 1]]]), '"clusters"'),
        (changed(clusters=[[[0, 8]]]), r"\[0, 8\] is no mention.*<= 7"),
        (changed(clusters=[[[3, 3]]]), r"\[3, 3\] is no mention"),
        (changed(clusters=[[[-1, 3]]]), r"\[-1, 3\] is no mention"),
        (changed(sentence_starts=[7]), '"sentence_starts".*0 to 6, got 7'),
        (changed(clusters=[[[0, 1]], [[0, 1]]]), r"'Ann' \(0, 1\).*coref_clusters_2.*'Ann saw Bob"),
        (changed(clusters=[[[0, 1], [0, 1]]]), "stands there twice"),
    ],
)
def test_wrong_lines_are_named(tmp_path, line, named):
    line = line if isinstance(line, str) else json.dumps(line)
    path = write(tmp_path / "docs.jsonl", json.dumps(DOCUMENTS[1]), line)
    with pytest.raises(ValueError, match=named) as error:
        read(path)
    assert str(error.value).startswith(f"{path}:2: ")
    assert "\n" not in str(error.value)
