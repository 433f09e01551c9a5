"""Examples in the tasks' files: what is read from each format, and how a wrong line is named."""

import json
import zlib

import pytest
import spacy
import srsly
from spacy.tokens import Doc, DocBin, Span
from spacy.util import registry

from spacy_elmo.tasks.texts import make_pair

from helpers.gzipped import gzipped

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
    path.write_bytes(gzipped(data) if path.suffix == ".gz" else data)
    return path


def read(reader, path, **settings):
    make = registry.get("readers", f"spacy-elmo.{reader}.v1")
    return list(make(path=path, **settings)(NLP))


def shown(doc):
    """Return all annotation of a Doc as texts; spans have their labels."""
    groups = {"ents": doc.ents} if doc.has_annotation("ENT_IOB") else {}
    found = {
        key: [f"{span.text} {span.label_}".strip() for span in sorted(group)]
        for key, group in {**groups, **doc.spans}.items()
    }
    if "answer" in doc.spans:
        found["texts"] = doc.spans["answer"].attrs["texts"]
    if doc.cats:
        found["cats"] = doc.cats
    if doc.has_annotation("SENT_START"):
        found["starts"] = [sentence.start for sentence in doc.sents]
    return {"words": " ".join(token.text for token in doc), **found}


def frames(*changed):
    return {**ROLES, "frames": [{**FRAME, **frame} for frame in changed]}


def clusters(*found):
    return {**CLUSTERS, "clusters": list(found)}


def answer(**changed):
    return {**QUESTION, "answers": [{"text": "Rome", "answer_start": 3, **changed}]}


def chains(prefix):
    return {f"{prefix}_1": ["Ann", "She"], f"{prefix}_2": ["Bob"]}


YORK = {"words": "In New York", "starts": [0]}
GAVE = {"words": "He gave up .", "starts": [0]}
SAW = {"words": "Ann saw Bob . She ran .", "starts": [0, 4]}
WON = {
    "words": "What won ? Maria 's 1990s song , a hit , won in Rome .",
    "starts": [0, 3],
    "question": ["What won?"],
    "context": [CONTEXT],
}
ATE = {"words": "A man eats . He sleeps .", "starts": [0, 4]}
ATE |= {"premise": ["A man eats."], "hypothesis": ["He sleeps."]}
ANSWERED = {"answer": ["1990s", "song"], "texts": ["1990", "song"]}
YES = {"words": ["Yes", "."]}
EMPTY = {"words": "", "ents": [], "starts": []}
OTHER = {"a": ["I", "sat"], "b": "No.", "label": "x"}
SAT = {"words": "I sat No .", "starts": [0, 2], "a": ["I sat"], "b": ["No."]}
# Plausible answers are none.
NOT_ANSWERED = {"is_impossible": True, "plausible_answers": ANSWERS, "answers": []}
# Reader, settings, line; what stands on the predicted Doc, and what more on the reference.
READ = [
    ("BIOCorpus", {}, TAGS, YORK, {"ents": ["New York LOC"]}),
    ("BIOCorpus", {"spans_key": "chunks"}, TAGS, YORK, {"chunks": ["New York LOC"]}),
    ("SRLCorpus", {}, ROLES, GAVE, {"srl": ["He ARG0", "gave up V"]}),
    ("SRLCorpus", {}, frames(), GAVE, {"srl": []}),
    ("SRLCorpus", {}, frames({"tags": ["O"] * 4}), GAVE, {"srl": ["gave V"]}),
    ("SRLCorpus", {}, frames({"tags": ["B-A", *"OOO"]}), GAVE, {"srl": ["He A", "gave V"]}),
    ("SRLCorpus", {}, frames({}, {}), GAVE, {"srl": ["He ARG0", "gave up V"]}),
    ("CorefCorpus", {}, CLUSTERS, SAW, chains("coref_clusters")),
    ("CorefCorpus", {"span_cluster_prefix": "same"}, CLUSTERS, SAW, chains("same")),
    ("CorefCorpus", {}, {**YES, "clusters": []}, {"words": "Yes ."}, {"coref_clusters_1": []}),
    ("CorefCorpus", {}, {"words": [], "clusters": []}, EMPTY, {"coref_clusters_1": []}),
    ("QACorpus", {}, QUESTION, WON, ANSWERED),
    ("QACorpus", {}, {**QUESTION, **NOT_ANSWERED}, WON, {"answer": [], "texts": []}),
    ("TextPairCorpus", {}, PAIR, ATE, {"cats": {"contradiction": 1.0}}),
    ("TextPairCorpus", {"groups": ["a", "b"]}, OTHER, SAT, {"cats": {"x": 1.0}}),
]


@pytest.mark.parametrize(("reader", "settings", "line", "given", "gold"), READ)
def test_every_format_gives_the_same_examples(tmp_path, reader, settings, line, given, gold):
    """Blank lines and other keys do not matter."""
    write(tmp_path / "x.jsonl.gz", line, {**line, "more": 3})
    written = read(reader, write(tmp_path / "x.jsonl", line, "", line), **settings)
    DocBin(docs=[example.reference for example in written]).to_disk(tmp_path / "x.spacy")
    for name in ("x.jsonl", "x.jsonl.gz", "x.spacy"):
        examples = read(reader, tmp_path / name, **settings)
        assert [shown(example.predicted) for example in examples] == [given] * 2
        assert [shown(example.reference) for example in examples] == [{**given, **gold}] * 2


def test_docs_without_tags_have_no_span_group(tmp_path):
    """Docs in which only some tokens have tags are refused."""
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


def squad(*questions):
    """An article of SQuAD."""
    return {"title": "a", "paragraphs": [{"context": CONTEXT, "qas": questions}]}


def test_questions_of_squad_are_read(tmp_path):
    """Questions without an answer have the form of SQuAD 2.0."""
    one, two = squad({**QUESTION, "id": "a"}), squad(*[{**QUESTION, "id": "b"}] * 2)
    none = squad({**QUESTION, **NOT_ANSWERED, "id": "d"})
    examples = read("QACorpus", write(tmp_path / "qa.json", {"data": [one, two, none]}))
    assert [shown(example.predicted) for example in examples] == [WON] * 4
    found = [shown(example.reference) for example in examples]
    assert found == [{**WON, **ANSWERED}] * 3 + [{**WON, "answer": [], "texts": []}]
    wrong = squad({**QUESTION, "id": "c", "answers": [{"text": "Rome", "answer_start": 0}]})
    for data, message in (
        ({"data": [wrong]}, r"qa\.json, question c: the answer 'Rome' is not"),
        ({"dataset": []}, r'qa\.json: "data" is missing: expected a file of SQuAD 1\.1 or'),
        ({"data": [squad({**QUESTION})]}, r'\["qas"\]\[0\]\["id"\] is missing'),
    ):
        with pytest.raises(ValueError, match=message):
            read("QACorpus", write(tmp_path / "qa.json", data))


@pytest.mark.parametrize(
    ("reader", "key", "label", "place", "named"),
    [
        ("BIOCorpus", "chunks", "A", (1, 1), "the span .* has no tokens"),
        ("BIOCorpus", "chunks", " ", (0, 1), "the span .* has no label"),
        ("SRLCorpus", "srl", "ARG0", (1, 1), "the span .* has no tokens"),
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


WRONG = {
    ("BIOCorpus", json.dumps(TAGS)): [
        ("New York", r"this is not JSON \(.*\): expected {"),
        ({"words": ["In"]}, '"tags" is missing: expected {'),
        ({**TAGS, "words": [1]}, r'"words"\[0\] should be a valid string, got 1: expected {'),
        ({**TAGS, "tags": TAGS["tags"][1:]}, "3 words, but 2 tags"),
        ({**TAGS, "tags": ["O", "I-LOC", "I-LOC"]}, "token 1: I-LOC follows O"),
        ({**TAGS, "tags": ["O", "LOC", "I-LOC"]}, "token 1: .*'LOC'"),
        ({**TAGS, "tags": ["O", "B- ", "I- "]}, "token 1: .*'B- '"),
    ],
    ("SRLCorpus", json.dumps(ROLES)): [
        ({"words": [""], "frames": []}, r'"words"\[0\] .*at least 1 character, got ""'),
        (frames({"pred": 4}), '"pred".*0 to 3, got 4'),
        (frames({"pred": "1"}), r'"frames"\[0\]\["pred"\] should be a valid integer, got "1"'),
        (frames({"pred": 2}), 'token 1 has the tag B-V, but V must begin at "pred", token 2'),
        (frames({"tags": ["B-A", "I-A", "O", "O"]}), "token 1 has the tag I-A, but V must"),
        (frames({"tags": ["O"]}), "4 words, but 1 tags of token 1"),
        (frames({"tags": ["O", "B-V", "I-ARG0", "O"]}), "token 2: I-ARG0 follows B-V"),
        (frames({}, {"tags": ["O"] * 4}), "token 1 has two different frames"),
    ],
    ("CorefCorpus", json.dumps(CLUSTERS)): [
        ({**CLUSTERS, "sentence_starts": 0}, '"sentence_starts" should be a valid array, got 0'),
        (clusters([[0, 1, 2]]), r'"clusters"\[0\]\[0\] .*got .0, 1, 2.'),
        (clusters([[0, 8]]), r"\[0, 8\] is not a mention.*<= 7"),
        (clusters([[3, 3]]), r"\[3, 3\] is not a mention"),
        (clusters([[-1, 3]]), r"\[-1, 3\] is not a mention"),
        ({**CLUSTERS, "sentence_starts": [7]}, '"sentence_starts".*0 to 6, got 7'),
        (clusters([[0, 1]], [[0, 1]]), r"'Ann' \(0, 1\).*coref_clusters_2.*'Ann saw Bob"),
    ],
    ("QACorpus", json.dumps(QUESTION)): [
        (answer(text="Rom"), "'Rom' is not at character 3"),
        (answer(text=""), "'' is not at character"),
        ({**QUESTION, "answers": [{"text": "a"}]}, r'"answers"\[0\]\["answer_start"\] is missing'),
        ({**QUESTION, "context": ["a"] * 99}, r'got \["a", "a", .*\.\.\.: expected'),
        ({**QUESTION, "question": ""}, "the question of the Doc .* has no tokens"),
    ],
    ("TextPairCorpus", json.dumps(PAIR)): [
        ("{", r'not JSON .* expected {"premise": "\.\.\."'),
        ("[1]", "should be an object"),
        ({**PAIR, "label": ""}, "a label in doc.cats of the Doc .* is empty"),
        ({**PAIR, "hypothesis": [1]}, r'"hypothesis" must be a string, or a .* words, got \[1\]'),
        ({**PAIR, "hypothesis": ""}, "the hypothesis of the Doc .* has no tokens"),
    ],
}


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz", "x.json"])
def test_a_byte_order_mark_is_ignored(tmp_path, name):
    content = {"data": [squad({**QUESTION, "id": "a"})]} if name == "x.json" else TAGS
    path = write(tmp_path / name, "\ufeff" + json.dumps(content))
    assert len(read("QACorpus" if name == "x.json" else "BIOCorpus", path)) == 1


@pytest.mark.parametrize(
    ("reader", "good", "line", "named"),
    [(*key, *row) for key, rows in WRONG.items() for row in rows],
)
def test_wrong_lines_are_named(tmp_path, reader, good, line, named):
    path = write(tmp_path / "x.jsonl", good, line)
    with pytest.raises(ValueError, match=rf"^\S*x\.jsonl:2: .*{named}.*$"):  # in one line
        read(reader, path)


LINE = json.dumps(TAGS).encode()
WHOLE = DocBin(docs=[NLP("A man")]).to_bytes()
NOT_SPACY = r" is not a \.spacy file, or it is broken: "


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("x.jsonl", LINE.replace(b"In", b"\xc4n"), "1: not UTF-8"),
        ("x.jsonl.gz", LINE, "broken .gz file"),
        ("x.jsonl.gz", gzipped(LINE)[:-9], "broken .gz file"),
        ("x.jsonl.gz", gzipped(LINE)[:20] + b"?" * 30, "broken .gz"),
        ("x.spacy", b"no DocBin", NOT_SPACY),
        ("x.spacy", WHOLE[: len(WHOLE) // 2], NOT_SPACY),
        ("x.spacy", zlib.compress(srsly.msgpack_dumps({"attrs": [1]})), NOT_SPACY),
    ],
)
def test_files_of_another_format_are_named(tmp_path, name, content, named):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"^\S*{name}.*{named}"):
        read("BIOCorpus", tmp_path / name)


def test_a_name_of_a_file_can_be_a_number(tmp_path, monkeypatch):
    """spaCy parses `--paths.train 1848` as a number."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "1848", TAGS)
    reader = {"@readers": "spacy-elmo.BIOCorpus.v1", "path": 1848}
    assert len(list(registry.resolve({"corpus": reader})["corpus"](NLP))) == 1
