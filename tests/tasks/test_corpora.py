"""The tasks' files of examples: what is read from each kind, and how a wrong line is named."""

import gzip
import json
import zlib

import pytest
import spacy
import srsly
from spacy.tokens import Doc, DocBin, Span
from spacy.util import registry

from spacy_elmo.tasks.coref.clusters import read_clusters
from spacy_elmo.tasks.srl.frames import read_frames
from spacy_elmo.tasks.texts import make_pair

TAGS = {"words": ["In", "New", "York"], "tags": ["O", "B-LOC", "I-LOC"]}
FRAME = {"pred": 1, "tags": ["B-ARG0", "B-V", "I-V", "O"], "sense": "give_up.07"}
ROLES = {"words": ["He", "gave", "up", "."], "frames": [FRAME], "doc": "one"}
CLUSTERS = {
    "words": ["Ann", "saw", "Bob", ".", "She", "ran", "."],
    "sentence_starts": [0, 4],
    "clusters": [[[4, 5], [0, 1]], [[2, 3]]],
    "id": "one",
}
CONTEXT = "Maria's 1990s song, a hit, won in Rome."
ANSWERS = [{"text": "1990", "answer_start": 8}, {"text": "song", "answer_start": 14}]
QUESTION = {"question": "What won?", "context": CONTEXT, "answers": ANSWERS}
PAIR = {"premise": "A man eats.", "hypothesis": "He sleeps.", "label": "contradiction"}


NLP = spacy.blank("en")


def write(path, *lines):
    """A line each; what is no string, as JSON."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    data = "".join(f"{text}\n" for text in texts).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def read(reader, path, **settings):
    make = registry.get("readers", f"spacy-elmo.{reader}.v1")
    return list(make(path=path, **settings)(NLP))


@pytest.fixture(params=["x.jsonl", "x.jsonl.gz", "x.spacy"])
def read_lines(request, tmp_path):
    """Reads examples from such a file; a blank line is none."""
    is_packed = request.param.endswith(".gz")

    def read_them(reader, *lines, **settings):
        path = write(tmp_path / ("x.jsonl.gz" if is_packed else "x.jsonl"), *lines, "")
        if request.param == "x.spacy":
            docs = [example.reference for example in read(reader, path, **settings)]
            path = tmp_path / request.param
            DocBin(docs=docs).to_disk(path)
        return read(reader, path, **settings)

    return read_them


def words(doc):
    return [token.text for token in doc]


def test_tags(read_lines):
    one, _ = read_lines("BIOCorpus", TAGS, TAGS)
    assert [(ent.text, ent.label_) for ent in one.reference.ents] == [("New York", "LOC")]
    assert words(one.predicted) == TAGS["words"]
    assert not one.predicted.has_annotation("ENT_IOB")
    assert len(list(one.predicted.sents)) == 1
    one, _ = read_lines("BIOCorpus", TAGS, TAGS, spans_key="chunks")
    assert [span.text for span in one.reference.spans["chunks"]] == ["New York"]
    assert not one.reference.ents


def test_a_group_of_tags_that_are_missing(tmp_path):
    """No annotation at all is none; of some tokens it cannot be told."""
    docs = [Doc(NLP.vocab, words=TAGS["words"]) for _ in range(2)]
    path = tmp_path / "x.spacy"
    DocBin(docs=docs[:1]).to_disk(path)
    (example,) = read("BIOCorpus", path, spans_key="chunks")
    assert "chunks" not in example.reference.spans
    docs[1].set_ents([docs[1][1:3]], default="missing")
    docs[1].set_ents([], outside=[docs[1][1:3]], default="unmodified")
    DocBin(docs=docs).to_disk(path)
    with pytest.raises(ValueError, match=r"token 0 \('In'\) of the Doc 'In New York' has no"):
        read("BIOCorpus", path, spans_key="chunks")


def test_roles(read_lines):
    lines = [ROLES, {"words": ["Yes", "."], "frames": []}]
    examples = read_lines("SRLCorpus", *lines)
    frames = [read_frames(example.reference) for example in examples]
    assert frames == [{1: [(0, 1, "ARG0"), (1, 3, "V")]}, {}]
    for example, line in zip(examples, lines):
        for doc in (example.predicted, example.reference):
            assert words(doc) == line["words"]
            assert len(list(doc.sents)) == 1
        assert "srl" not in example.predicted.spans


def test_predicates_without_a_tag_and_equal_frames(read_lines):
    for tags in (["O"] * 4, ["B-ARG0", "O", "O", "O"]):
        (example,) = read_lines("SRLCorpus", {**ROLES, "frames": [{"pred": 1, "tags": tags}]})
        assert (1, 2, "V") in read_frames(example.reference)[1]
    (example,) = read_lines("SRLCorpus", {**ROLES, "frames": [FRAME, FRAME]})
    assert len(example.reference.spans["srl"]) == 2


def test_clusters(read_lines):
    lines = [CLUSTERS, {"words": ["Yes", "."], "clusters": []}, {"words": [], "clusters": []}]
    examples = read_lines("CorefCorpus", *lines)
    clusters = [read_clusters(example.reference) for example in examples]
    assert clusters == [[[(0, 1), (4, 5)], [(2, 3)]], [], []]
    for example, line in zip(examples, lines):
        for doc in (example.predicted, example.reference):
            assert words(doc) == line["words"]
        assert not example.predicted.spans
    for doc in (examples[0].predicted, examples[0].reference):
        assert [sentence.start for sentence in doc.sents] == [0, 4]
    assert not examples[1].predicted.has_annotation("SENT_START")
    (example,) = read_lines("CorefCorpus", CLUSTERS, span_cluster_prefix="same")
    assert set(example.reference.spans) == {"same_1", "same_2"}
    assert read_clusters(example.reference, "same") == clusters[0]


def check_questions(examples):
    assert len(examples) == 3
    for example in examples:
        spans = example.reference.spans["answer"]
        assert [span.text for span in spans] == ["1990s", "song"]
        assert spans.attrs["texts"] == ["1990", "song"]
        assert "answer" not in example.predicted.spans
        assert example.predicted.spans["context"][0].text == CONTEXT


def test_questions(read_lines):
    check_questions(read_lines("QACorpus", *[QUESTION] * 3))


def squad(*questions):
    """An article of SQuAD."""
    return {"title": "a", "paragraphs": [{"context": CONTEXT, "qas": questions}]}


def test_questions_of_squad(tmp_path):
    one, two = squad({**QUESTION, "id": "a"}), squad(*[{**QUESTION, "id": "b"}] * 2)
    check_questions(read("QACorpus", write(tmp_path / "qa.json", {"data": [one, two]})))
    wrong = squad({**QUESTION, "id": "c", "answers": [{"text": "Rome", "answer_start": 0}]})
    for data, message in (
        ({"data": [wrong]}, r"qa\.json, question c: the answer 'Rome' is not"),
        ({"dataset": []}, r'qa\.json: "data" is missing: expected a file of SQuAD 1\.1 or'),
        ({"data": [squad({**QUESTION})]}, r'\["qas"\]\[0\]\["id"\] is missing'),
    ):
        with pytest.raises(ValueError, match=message):
            read("QACorpus", write(tmp_path / "qa.json", data))


def test_questions_without_an_answer(tmp_path, read_lines):
    """In the form of SQuAD 2.0; also packed. Plausible answers are none."""
    plausible = {"is_impossible": True, "plausible_answers": QUESTION["answers"]}
    none = {**QUESTION, "answers": [], "id": "a", **plausible}
    path = write(tmp_path / "qa.json", {"version": "v2.0", "data": [squad(none)]})
    (example,) = read("QACorpus", path)
    DocBin(docs=[example.reference]).to_disk(tmp_path / "qa.spacy")
    for found in (example, *read("QACorpus", tmp_path / "qa.spacy"), *read_lines("QACorpus", none)):
        assert len(found.reference.spans["answer"]) == 0
        assert "answer" not in found.predicted.spans


def test_pairs(read_lines):
    tokens = {"premise": ["A", "man"], "hypothesis": ["He"], "label": "entailment", "id": 3}
    examples = read_lines("TextPairCorpus", PAIR, tokens)
    labels = [example.reference.cats for example in examples]
    assert labels == [{"contradiction": 1.0}, {"entailment": 1.0}]
    for example in examples:
        assert not example.predicted.cats
        assert example.predicted.text == example.reference.text
        premises = [str(*doc.spans["premise"]) for doc in (example.predicted, example.reference)]
        assert premises[0] == premises[1]
    assert words(examples[0].predicted)[:4] == ["A", "man", "eats", "."]
    line = {"one": "I sat by the bank.", "other": "A bank lends.", "label": "no"}
    (example,) = read_lines("TextPairCorpus", line, groups=["one", "other"])
    assert example.predicted.spans["other"][0].text == "A bank lends."


@pytest.mark.parametrize(
    ("reader", "key", "label", "place", "named"),
    [
        ("BIOCorpus", "chunks", "A", (1, 1), "the span .* has no tokens"),
        ("BIOCorpus", "chunks", "", (0, 1), "the span .* has no label"),
        ("BIOCorpus", "chunks", " ", (0, 1), "the span .* has no label"),
        ("SRLCorpus", "srl", "ARG0", (1, 1), "the span .* has no tokens"),
        ("SRLCorpus", "srl", "", (0, 1), "the span .* has no label"),
        ("CorefCorpus", "coref_clusters_1", "", (1, 1), "the span .* has no tokens"),
        ("QACorpus", "answer", "", (2, 2), "the span .* has no tokens"),
        ("TextPairCorpus", "premise", "", (0, 1), r"a label in doc\.cats of the Doc 'Who runs A"),
        ("TextPairCorpus", "other", "", (0, 1), "the Doc 'Who runs A man runs' needs one span"),
    ],
)
def test_wrong_docs_are_named(tmp_path, reader, key, label, place, named):
    doc = make_pair(NLP, "Who runs", "A man runs", ["question", "context"])
    doc.spans["hypothesis"] = list(doc.spans["context"])
    doc.spans[key] = [Span(doc, *place, label=label)]
    doc.cats = {"": 1.0}
    DocBin(docs=[doc]).to_disk(tmp_path / "x.spacy")
    settings = {"spans_key": key} if key == "chunks" else {}
    with pytest.raises(ValueError, match=rf"x\.spacy: {named}"):
        read(reader, tmp_path / "x.spacy", **settings)


READERS = ("BIOCorpus", "SRLCorpus", "CorefCorpus", "TextPairCorpus", "QACorpus")


@pytest.mark.parametrize("reader", READERS)
def test_broken_docs_are_named(tmp_path, reader):
    """Bytes that are no such file, half of one, and one with other content."""
    whole = DocBin(docs=[NLP("A man")]).to_bytes()
    other = zlib.compress(srsly.msgpack_dumps({"attrs": [1]}))
    for content in (b"no DocBin", whole[: len(whole) // 2], other):
        (tmp_path / "x.spacy").write_bytes(content)
        with pytest.raises(ValueError, match=r"x\.spacy is not a \.spacy file, or it is broken: "):
            read(reader, tmp_path / "x.spacy")


def frames(*changed):
    return {**ROLES, "frames": [{**FRAME, **frame} for frame in changed]}


def clusters(*found):
    return {**CLUSTERS, "clusters": list(found)}


def answer(**changed):
    return {**QUESTION, "answers": [{"text": "Rome", "answer_start": 3, **changed}]}


WRONG = {
    ("BIOCorpus", json.dumps(TAGS)): [
        ("New York", r"this is not JSON \(.*\): expected {"),
        ({"words": ["In"]}, '"tags" is missing: expected {'),
        (
            {"words": [1], "tags": ["O"]},
            r'"words"\[0\] should be a valid string, got 1: expected {',
        ),
        ({**TAGS, "tags": TAGS["tags"][1:]}, "3 words, but 2 tags"),
        ({**TAGS, "tags": ["O", "I-LOC", "I-LOC"]}, "token 1: I-LOC follows O"),
        ({**TAGS, "tags": ["O", "LOC", "I-LOC"]}, "token 1: .*'LOC'"),
        ({**TAGS, "tags": ["O", "B- ", "I- "]}, "token 1: .*'B- '"),
    ],
    ("SRLCorpus", json.dumps(ROLES)): [
        ({"words": ["a"]}, '"frames" is missing'),
        ({"words": [""], "frames": []}, r'"words"\[0\] .*at least 1 character, got ""'),
        (frames({"pred": 4}), '"pred".*0 to 3, got 4'),
        (frames({"pred": "1"}), r'"frames"\[0\]\["pred"\] should be a valid integer, got "1"'),
        (frames({"pred": 2}), 'token 1 has the tag B-V, but V must begin at "pred", token 2'),
        (
            frames({"tags": ["B-A", "I-A", "O", "O"]}),
            "token 1 has the tag I-A, but V must",
        ),
        (frames({"tags": ["O"]}), "4 words, but 1 tags of token 1"),
        (frames({"tags": ["O", "B-V", "I-ARG0", "O"]}), "token 2: I-ARG0 follows B-V"),
        (frames({"tags": ["O", "B-V", "S-ARG0", "O"]}), "'S-ARG0'"),
        (frames({"tags": ["O", "B-V", "B-", "O"]}), "'B-'"),
        (frames({}, {"tags": ["O"] * 4}), "token 1 has two different frames"),
    ],
    ("CorefCorpus", json.dumps(CLUSTERS)): [
        ({"words": ["a"]}, '"clusters" is missing'),
        ({**CLUSTERS, "words": ["", *"abcdef"]}, r'"words"\[0\]'),
        ({**CLUSTERS, "sentence_starts": 0}, '"sentence_starts" should be a valid array, got 0'),
        (clusters([0, 1]), r'"clusters"\[0\]\[0\]'),
        (clusters([[0, 1, 2]]), r'"clusters"\[0\]\[0\] .*got .0, 1, 2.'),
        (clusters([["0", 1]]), r'"clusters"\[0\]\[0\]\[0\] .*integer, got "0"'),
        (clusters([[0, 8]]), r"\[0, 8\] is not a mention.*<= 7"),
        (clusters([[3, 3]]), r"\[3, 3\] is not a mention"),
        (clusters([[-1, 3]]), r"\[-1, 3\] is not a mention"),
        ({**CLUSTERS, "sentence_starts": [7]}, '"sentence_starts".*0 to 6, got 7'),
        (clusters([[0, 1]], [[0, 1]]), r"'Ann' \(0, 1\).*coref_clusters_2.*'Ann saw Bob"),
        (
            clusters([[0, 1], [0, 1]]),
            r"'Ann' \(0, 1\).* occurs twice, first in doc.spans\['coref_clusters_1'\]",
        ),
    ],
    ("QACorpus", json.dumps(QUESTION)): [
        (answer(text="Rom"), "'Rom' is not at character 3"),
        (answer(text=""), "'' is not at character"),
        (answer(answer_start="3"), r'\["answer_start"\] should be a valid integer, got "3"'),
        (
            {**QUESTION, "answers": [{"text": "Rome"}]},
            r'"answers"\[0\]\["answer_start"\] is missing',
        ),
        ({**QUESTION, "context": ["a"] * 99}, r'got \["a", "a", .*\.\.\.: expected'),
        ({**QUESTION, "question": ""}, "the question of the Doc .* has no tokens"),
    ],
    ("TextPairCorpus", json.dumps(PAIR)): [
        ("{", r'not JSON .* expected {"premise": "\.\.\."'),
        ("[1]", "should be an object"),
        ({"premise": "A man"}, '"hypothesis" is missing'),
        ({**PAIR, "label": 1}, '"label" should be a valid string, got 1'),
        ({**PAIR, "label": ""}, "a label in doc.cats of the Doc .* is empty"),
        ({**PAIR, "hypothesis": [1]}, r'"hypothesis" must be a string, or a .* words, got \[1\]'),
        ({**PAIR, "hypothesis": ""}, "the hypothesis of the Doc .* has no tokens"),
    ],
}


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz", "x.json"])
def test_byte_order_mark(tmp_path, name):
    content = json.dumps({"data": [squad({**QUESTION, "id": "a"})]} if name == "x.json" else TAGS)
    data = content.encode("utf-8-sig")
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert len(read("QACorpus" if name == "x.json" else "BIOCorpus", tmp_path / name)) == 1


@pytest.mark.parametrize(
    ("reader", "good", "line", "named"),
    [(*key, *row) for key, rows in WRONG.items() for row in rows],
)
def test_wrong_lines_are_named(tmp_path, reader, good, line, named):
    path = write(tmp_path / "x.jsonl", good, line)
    with pytest.raises(ValueError, match=named) as error:
        read(reader, path)
    assert str(error.value).startswith(f"{path}:2: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        (
            "x.jsonl",
            json.dumps(TAGS, ensure_ascii=False).replace("In", "Än").encode("latin1"),
            "utf-8",
        ),
        ("x.jsonl.gz", json.dumps(TAGS).encode(), "broken gzip file"),
        ("x.jsonl.gz", gzip.compress(json.dumps(TAGS).encode())[:-9], "broken gzip file"),
        (
            "x.jsonl.gz",
            gzip.compress(json.dumps(TAGS).encode())[:20] + b"?" * 30,
            "broken gzip",
        ),
    ],
    ids=["latin1", "no_gzip", "cut", "garbled"],  # gzip's bytes carry the time
)
def test_files_of_another_kind_are_named(tmp_path, name, content, named):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=named) as error:
        read("BIOCorpus", tmp_path / name)
    assert str(error.value).startswith(str(tmp_path / name))
