"""Converters of the corpora give the documents and labels of hand-written samples."""

import json
from pathlib import Path

import pytest
import spacy
from spacy.cli.convert import convert as convert_with_spacy

from spacy_elmo.tasks.crf.corpus import make_bio_corpus

from helpers.project_scripts import call, docs

pytestmark = pytest.mark.commands


@pytest.fixture
def convert(here):
    """Converts such files in a folder of the test's own; what is printed."""

    def convert(name, files, arguments=None, fails=False):
        """Make a function that converts files in the test's own folder, and returns the output."""
        for path, content in files.items():
            Path(path).parent.mkdir(exist_ok=True)
            Path(path).write_bytes(content.encode("utf8", "surrogateescape"))
        arguments = arguments or f"{' '.join(files)} out.spacy"
        return call(f"data.convert_{name}", *arguments.split(), fails=fails)

    return convert


def shown(path):
    """Yield the words of each Doc of a file, and its annotation. Bars are between sentences."""
    for doc in docs(path):
        parts = doc.sents if doc.has_annotation("SENT_START") else [doc]
        words = " | ".join(" ".join(token.text for token in part) for part in parts)
        yield " / ".join([words, *annotation(doc)])


def annotation(doc):
    for ent in doc.ents:
        yield f"{ent.text.strip()} {ent.label_}"
    for key, group in doc.spans.items():
        spans = [f"{span.text} {span.label_}".strip() for span in group]
        yield f"{key}: {', '.join(spans)}".strip()
    assert set(doc.cats.values()) <= {0.0, 1.0}
    yield from (name for name, value in doc.cats.items() if value)


TREES = "(4 (3 (2 A) (4 (3 fine) (2 film))) (2 .))\n(1 (2 Not) (3 good))\n"
UNER = """# newdoc id = one
# sent_id = one-1
# text = New York is Swiss .
1\tNew\tB-LOC\t-\tsomebody
2\tYork\tI-LOC\t-\tsomebody
3\tis\tO\t-\t-
4\tSwiss\tB-OTH\t-\tsomebody
5\tcheese\tI-OTH\t-\tsomebody
6\t.\tB-O\t-\tsomebody

# sent_id = one-2
1\t#\tO\t-\t-
2\tBob\tB-PER\t-\tsomebody
3\tAnn\tB-PER\t-\tsomebody
"""
# A Latin-1 letter a line: byte 0xE9 is no UTF-8.
TREC_LABELS = ("description", "entity", "abbreviation", "human", "location", "number")
TREC = "".join(f"{i} What is caf\udce9 {i} ?\n" for i in range(6))
SRL = """\
{"words": ["He", "gave", "up"], "frames": [{"pred": 1, "tags": ["B-ARG0", "B-V", "I-V"]}]}
{"words": ["."], "frames": []}
"""
PAIRS = {
    "s1.dev": "He is n't here . \nIt rains . \nYes \n",
    "s2.dev": "A man left . \nIt is dry . \nNo \n",
    "labels.dev": "entailment\ncontradiction\nneutral\n",
    "more.tsv": 'sentence1\tsentence2\tgold_label\n"He\'s here.\tA "man" left.\tneutral\n',
}
QAMR = {
    "qamr.tsv": (
        "one\t1\t2\t0\t1\tWho ran ?\t0\t5:0 1\t6:0 3\n"  # the third answer has a gap
        "one\t1\t2\t0\t1\tWhere ?\t1 3\n"  # no other answer: left out
    ),
    "sentences.tsv": "one\tTom Lee ran -LRB- home\n",
}
TOM = "Who ran ? | Tom Lee ran ( home / question: Who ran ? / context: Tom Lee ran ( home / "
TOM += "answer: Tom"
LITBANK = """#begin document (one); part 0
one\t0\t0\tAn\t_\t_\t_\t_\t_\t_\t_\t_\t(0
one\t0\t1\told\t_\t_\t_\t_\t_\t_\t_\t_\t
one\t0\t2\tman\t_\t_\t_\t_\t_\t_\t_\t_\t0)
one\t0\t3\tsaw\t_\t_\t_\t_\t_\t_\t_\t_\t
one\t0\t4\this\t_\t_\t_\t_\t_\t_\t_\t_\t(0)|(1
one\t0\t5\tcat\t_\t_\t_\t_\t_\t_\t_\t_\t1)

one\t0\t0\tHe\t_\t_\t_\t_\t_\t_\t_\t_\t(0)
one\t0\t1\tran\t_\t_\t_\t_\t_\t_\t_\t_\t_

#end document
"""
ONTOGUM = """# newdoc id = two
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\t_\t0\troot\t_\tSpaceAfter=No
2\tn't\tnot\tPART\tRB\t_\t1\tadvmod\t_\t_
3\tgo\tgo\tVERB\tVB\t_\t1\tx\t_\t_
3.1\t_\t_\t_\t_\t_\t_\t_\t_\t_

1\tAnn\tAnn\tPROPN\tNNP\t_\t3\tposs\t_\tDiscourse=x:1->2|Entity=(4(1
2\t's\t's\tPART\tPOS\t_\t1\tcase\t_\tEntity=1)
3\tcat\tcat\tNOUN\tNN\t_\t0\troot\t_\tEntity=4)
4\tand\tand\tCCONJ\tCC\t_\t5\tcc\t_\t_
5\ther\ther\tPRON\tPRP\t_\t3\tconj\t_\tEntity=(1)(2)
6\tit\tit\tPRON\tPRP\t_\t3\tconj\t_\tEntity=(4)
"""
COREF = {
    "in/one.conll": LITBANK,
    "in/two.conllu": ONTOGUM,
    "splits.tsv": "two\ttrain\none\ttest\n",  # which document is for what
}
HOMOGRAPHS = (
    "\ufeffhomograph\twordid\tsentence\tstart\tend\n"
    '"bass"\t"bass_corp"\t"A naïve Bass swam ""off""."\t8\t12\n'
    '"bass"\t"bass"\t"The bass guitar."\t5\t9\n'  # wrong offsets
    '"bass"\t"bass"\t"The bassline."\t4\t8\n'  # a part of a token
    '"bass"\t"bass"\t"Loud bass"\t5\t9\n'
)
# Files of each converter, what it writes, and other arguments than these files and `out.spacy`.
SAMPLES = {
    "wnut17": (
        # A line with a single TAB separates sentences, too.
        {"train.conll": "In\tO\nNew\tB-loc\nYork\tI-loc\n\t\nBob\tB-person\n.\tO\n"},
        "In New York / New York loc\nBob . / Bob person",
    ),
    "sst5": (
        {"stsa.dev": "0 awful .\n4 a wonder of a film\n"},
        "awful . / very negative\na wonder of a film / very positive",
    ),
    "sst5 trees": ({"train.txt": TREES}, "A fine film . / very positive\nNot good / negative"),
    "sst5 phrases": (
        {"train.txt": TREES},
        "A fine film . / very positive\nA fine film / positive\nA / neutral\n"
        "fine film / very positive\nfine / positive\nfilm / neutral\n. / neutral\n"
        "Not good / negative\nNot / neutral\ngood / positive",
        "train.txt out.spacy --phrases",
    ),
    "uner": (
        {"dev.iob2": UNER},
        # Comments are none of the text, OTH and the slip B-O are no entities.
        "New York is Swiss cheese . / New York LOC\n# Bob Ann / Bob PER / Ann PER",
    ),
    "trec": (
        {"TREC.test": TREC},
        "\n".join(f"What is caf\u00e9 {i} ? / {label}" for i, label in enumerate(TREC_LABELS)),
    ),
    "srl": ({"roles.jsonl": SRL}, "He gave up / srl: He ARG0, gave up V\n. / srl:"),
    "pairs": (
        PAIRS,
        # SNLI's tokens are kept, quotes are text, and the last pairs are apart.
        """\
out-dev.spacy
Yes | No / premise: Yes / hypothesis: No / neutral
He is n't here . | A man left . / premise: He is n't here . / hypothesis: A man left . / entailment
It rains . | It is dry . / premise: It rains . / hypothesis: It is dry . / contradiction
" He 's here . | A " man " left . / premise: "He's here. / hypothesis: A "man" left. / neutral""",
        ". dev out.spacy --dev out-dev.spacy --n-dev 1 --more more.tsv",
    ),
    "qamr": (QAMR, f"{TOM}, Tom Lee"),
    "coref": (
        COREF,
        # Of two clusters of one mention the first has it.
        """\
out/c-dev.spacy
out/c-test.spacy
An old man saw his cat | He ran / coref_clusters_1: An old man, his, He / coref_clusters_2: his cat
out/c-train.spacy
Do n't go | Ann 's cat and her it / coref_clusters_1: Ann 's, her / coref_clusters_2: Ann 's cat, it
""",
        "in splits.tsv out/c",
    ),
    "homograph": (
        {"in/bass.tsv": HOMOGRAPHS},
        'A naïve Bass swam " off " . / senses: Bass bass_corp\nLoud bass / senses: bass bass',
        "in out.spacy",
    ),
}
PRINTED = {
    "srl": ["2 sentences, 4 tokens, 1 predicates, 1 roles"],
    "pairs": ["3 pairs", "1 pairs"],
    "coref": ["1 documents, 8 tokens, 4 mentions, 2 clusters", "1 mentions left out"],
    "homograph": ["2 sentences, 2 senses", "wrong offsets: 1", "a part of a token: 1"],
}


@pytest.mark.parametrize("name", SAMPLES)
def test_converted_docs_and_their_labels(convert, name):
    """The figures are printed."""
    files, expected, *arguments = SAMPLES[name]
    printed = convert(name.split()[0], files, *arguments)
    written = [line for one in sorted(Path().rglob("*.spacy")) for line in (str(one), *shown(one))]
    assert "\n".join(written).replace("out.spacy\n", "") == expected.strip()
    assert all(message in printed for message in PRINTED.get(name, ()))


# The line "Not good" of the trees, changed.
NO_TREES = ("(3 (2 A) (4 film)", "(3 A))", "(3 )", "(7 A)", "3 A film")
NO_UNER = ("1\tBob\n", "Bob\t1\tB-PER\n", "2\tBob\tX-PER\n", "2\tBob\tI-PER\n")


@pytest.mark.parametrize(
    ("name", "file", "before", "after", "named"),
    [
        ("wnut17", "train.conll", "I-loc", "X-loc", "train.conll:3: token 2: expected the tag O"),
        *(("sst5 phrases", "train.txt", TREES[-21:], f"{line}\n", ":2:") for line in NO_TREES),
        *(("uner", "dev.iob2", "2\tBob\tB-PER\t-\tsomebody\n", line, "2:13:") for line in NO_UNER),
        *(("trec", "TREC.test", "1 What is", line, "test:2:") for line in ("6 Is", "Is", "1 \n")),
        ("srl", "roles.jsonl", "B-V", "I-V", "roles.jsonl:1: token 1: I-V follows B-ARG0"),
        ("pairs", "labels.dev", "contradiction", "-", "labels.dev:2:"),
        ("pairs", "s2.dev", "It is dry . \n", "", "equal numbers of lines"),
        ("pairs", "more.tsv", "\tneutral", "\tnone", "more.tsv:2:"),
        ("qamr", "qamr.tsv", "\t0\t5", "\t9\t5", "qamr.tsv:1:"),
        ("coref", "in/one.conll", "0)", "3)", "one.conll:4: '3)' closes"),
        ("coref", "in/one.conll", "\t1)", "\t_", "one.conll: the mention '(1' is not closed"),
        ("coref", "in/one.conll", "\t_\t_\t_\t_", "", "one.conll:2: expected the columns"),
        ("coref", "in/two.conllu", "\t_\t_", "", "two.conllu:2: expected ten columns"),
        ("coref", "splits.tsv", "two\ttrain", "one\tall", "name<TAB>train"),
        ("homograph", "in/bass.tsv", "\t9\n", "\tx\n", "tsv:3: start and end must be numbers"),
    ],
)
def test_wrong_lines_are_named_and_nothing_is_written(convert, name, file, before, after, named):
    files, _, *arguments = SAMPLES[name]
    assert before in files[file]
    files = {**files, file: files[file].replace(before, after)}
    printed = convert(name.split()[0], files, *arguments, fails=True)
    assert "".join(named.split()) in "".join(printed.split())
    assert not Path("out.spacy").exists() and not Path("out").exists()


def squad(n_articles):
    """Return a file of articles, each with one question; the context names the article."""
    question = {"question": "Who has cats?", "answers": [{"text": "Anna", "answer_start": 0}]}
    articles = [
        {"paragraphs": [{"context": f"Anna has {i} cats.", "qas": [{"id": str(i), **question}]}]}
        for i in range(n_articles)
    ]
    return {"squad.json": json.dumps({"data": articles})}


def test_questions_are_divided_by_article(convert):
    """The last articles are test and dev set. Other questions are training data."""
    convert("qamr", QAMR)
    convert("squad", squad(5), "squad.json out-qa --n-articles 2 --more out.spacy")
    found = {part: [*shown(f"out-qa-{part}.spacy")] for part in ("train", "dev", "test")}
    anna = [
        f"Who has cats ? | Anna has {i} cats . / question: Who has cats? / "
        f"context: Anna has {i} cats. / answer: Anna"
        for i in range(5)
    ]
    assert found == {"train": [anna[0], f"{TOM}, Tom Lee"], "dev": anna[1:3], "test": anna[3:]}
    arguments = "squad.json out-none --n-articles 2"
    assert "only 4 articles" in convert("squad", squad(4), arguments, fails=True)
    printed = convert("squad", {"squad.json": '{"data": [{}]}'}, arguments, fails=True)
    assert '"data"[0]["paragraphs"] is missing' in printed


CHUNKS = "He PRP B-NP\nran VBD B-VP\nthe DT B-NP\nrace NN I-NP\n\nIt PRP B-NP\nended VBD B-VP\n"


def test_columns_of_conll_2000(tmp_path):
    """spaCy converts them. The reader makes a span group of spaCy's entities."""
    (tmp_path / "train.txt").write_text(CHUNKS, "utf8")
    convert_with_spacy(tmp_path / "train.txt", tmp_path, file_type="spacy", converter="ner")
    one, two = make_bio_corpus(tmp_path / "train.spacy", spans_key="chunks")(spacy.blank("en"))
    assert [*annotation(one.reference)] == ["chunks: He NP, ran VP, the race NP"]
    assert not one.reference.has_annotation("ENT_IOB")
    assert [token.text for token in two.predicted] == ["It", "ended"]
    assert not two.predicted.spans


def test_convert_trec_keeps_a_tenth_apart(convert):
    """The seed chooses the tenth. Nothing is lost or in both files."""
    files = {"TREC.train": "".join(f"{i % 6} What is {i} ?\n" for i in range(100))}
    chosen = []
    for seed in (0, 0, 1):
        convert("trec", files, f"TREC.train train.spacy --dev dev.spacy --seed {seed}")
        train, dev = ([int(doc[2].text) for doc in docs(f"{n}.spacy")] for n in ("train", "dev"))
        assert len(dev) == 10
        assert sorted(train + dev) == list(range(100))
        assert train == sorted(train)
        chosen.append(dev)
    assert chosen[0] == chosen[1] != chosen[2]


# OCR'd newspapers


REPAIRED = """# file:\t\tF_SBB_1
# sbb url:\thttp://example.org/1
# tel url:\t???
Sir B-PEr
Robert I-PEr
Deutsche Bank B-ORG
höre  O
worden
Bür v
Gruber B-BER
Wien B-LOCer
Ulm B.LOC
Tageblatts I_ORG
alta. I-MISC
Anna I-PER
Berg I-LOC
# O
Verband B-ORG\x20
"""
ENTITIES = """Sir Robert PER, DeutscheBank ORG, Gruber PER, Wien LOC, Ulm LOC, Tageblatts ORG, \
Anna PER, Berg LOC, Verband ORG"""


def europeana(convert, text):
    """Return what is printed, and the Docs for each use."""
    printed = convert("europeana", {"one.bio": text}, "one.bio out/one")
    return printed, *(docs(f"out/one-{part}.spacy") for part in ("train", "dev", "test"))


def test_errors_of_the_newspapers_are_repaired_and_counted(convert):
    printed, *parts = europeana(convert, REPAIRED)
    found = [doc for part in parts for doc in part]
    words = [token.text for doc in found for token in doc]
    assert words[:6] == ["Sir", "Robert", "DeutscheBank", "höre", "worden", "Bür"]
    assert words[-2:] == ["#", "Verband"]
    assert [one for doc in found for one in annotation(doc)] == ENTITIES.split(", ")
    counts = ("comment left out 3", "other tag 6", "spaces in a token 1", "tag missing 1")
    for count in (*counts, "tag unknown 1", "I-MISC 1", "I to B 3"):
        assert count in printed, count


def test_entities_without_b_tags_begin_where_their_type_does(convert):
    """The French newspapers have IOB1 tags."""
    text = "A I-PER\nB I-PER\nde O\nC I-LOC\nD I-ORG\nà O\nE I-LOC\n. O\nF I-LOC\n"
    printed, *parts = europeana(convert, text)
    found = [one for part in parts for doc in part for one in annotation(doc)]
    assert found == ["A B PER", "C LOC", "D ORG", "E LOC", "F LOC"]
    assert "I to B 5" in printed


def test_newspapers_are_cut_into_sentences_and_blocks(convert):
    """Sentences end after marks and 60 tokens, never in an entity.

    They keep their order, and nothing is lost.
    """
    short = [f"Wort{i} O\n. O\n" for i in range(300)]
    long = [f"w{i} O\n" for i in range(59)] + ["St B-LOC\n", ". I-LOC\n", "Pölten I-LOC\n", "x O\n"]
    text = "".join(short + long)
    _, train, dev, test = europeana(convert, text)
    assert {len(doc) for doc in train} == {2}
    found = [token.text for doc in train + dev + test for token in doc]
    assert found == [line.split()[0] for line in text.splitlines()]
    assert sum(map(len, train)) in (530, 532)  # 80 % of 663
    assert sum(map(len, dev)) in (66, 68)
    assert [one for doc in dev + test for one in annotation(doc)] == ["St . Pölten LOC"]
    assert max(map(len, train + dev + test)) == 62
