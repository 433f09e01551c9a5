"""The converters of the corpora, on hand-written samples."""

import json

import pytest
import spacy
from spacy.cli.convert import convert
from spacy.tokens import DocBin

from spacy_elmo.tasks.crf.corpus import make_bio_corpus

from helpers.project_scripts import call, docs
from scripts.data.convert_homograph import main


def entities(path):
    """The entities of each Doc of a .spacy file."""
    return [[(ent.text, ent.label_) for ent in doc.ents] for doc in docs(path)]


def test_convert_wnut17(tmp_path):
    """A line with a single TAB separates sentences, too."""
    source = tmp_path / "train.conll"
    source.write_text("In\tO\nNew\tB-location\nYork\tI-location\n\t\nBob\tB-person\n.\tO\n", "utf8")
    call("data.convert_wnut17", source, tmp_path / "train.spacy")
    one, two = docs(tmp_path / "train.spacy")
    assert [(ent.text, ent.label_) for ent in one.ents] == [("New York", "location")]
    assert [(ent.text, ent.label_) for ent in two.ents] == [("Bob", "person")]


def test_convert_sst5(tmp_path):
    source = tmp_path / "stsa.fine.dev"
    source.write_text("0 awful .\n4 a wonder of a film\n", "utf8")
    call("data.convert_sst5", source, tmp_path / "dev.spacy")
    one, two = docs(tmp_path / "dev.spacy")
    assert one.cats["very negative"] == 1.0
    assert two.cats["very positive"] == 1.0
    assert sum(two.cats.values()) == 1.0
    assert [token.text for token in two] == ["a", "wonder", "of", "a", "film"]


TREES = """(4 (3 (2 A) (4 (3 fine) (2 film))) (2 .))
(1 (2 Not) (3 good))
"""


def test_convert_sst5_trees(tmp_path):
    """The sentences alone, or each phrase with its label."""
    (tmp_path / "train.txt").write_text(TREES, "utf8")
    call("data.convert_sst5", tmp_path / "train.txt", tmp_path / "sentences.spacy")
    call("data.convert_sst5", tmp_path / "train.txt", tmp_path / "phrases.spacy", "--phrases")
    names = ("very negative", "negative", "neutral", "positive", "very positive")
    found = [
        [(names.index(max(doc.cats, key=doc.cats.get)), doc.text.strip()) for doc in docs(path)]
        for path in (tmp_path / "sentences.spacy", tmp_path / "phrases.spacy")
    ]
    assert found[0] == [(4, "A fine film ."), (1, "Not good")]
    first = [(4, "A fine film ."), (3, "A fine film"), (2, "A"), (4, "fine film")]
    first += [(3, "fine"), (2, "film"), (2, ".")]
    assert found[1] == [*first, (1, "Not good"), (2, "Not"), (3, "good")]


CHUNKS = "He PRP B-NP\nran VBD B-VP\nthe DT B-NP\nrace NN I-NP\n\nIt PRP B-NP\nended VBD B-VP\n"


def test_columns_of_conll_2000(tmp_path):
    """spaCy converts them; the reader makes a span group of what spaCy takes for entities."""
    (tmp_path / "train.txt").write_text(CHUNKS, "utf8")
    convert(tmp_path / "train.txt", tmp_path, file_type="spacy", converter="ner")
    one, two = make_bio_corpus(tmp_path / "train.spacy", spans_key="chunks")(spacy.blank("en"))
    chunks = [(span.text, span.label_) for span in one.reference.spans["chunks"]]
    assert chunks == [("He", "NP"), ("ran", "VP"), ("the race", "NP")]
    assert not one.reference.has_annotation("ENT_IOB")
    assert [token.text for token in two.predicted] == ["It", "ended"]
    assert not two.predicted.spans


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


def test_convert_uner(tmp_path):
    """Comments are none of the text, OTH and the slip B-O are no entities."""
    (tmp_path / "dev.iob2").write_text(UNER, "utf8")
    call("data.convert_uner", tmp_path / "dev.iob2", tmp_path / "dev.spacy")
    one, two = docs(tmp_path / "dev.spacy")
    assert [token.text for token in one] == ["New", "York", "is", "Swiss", "cheese", "."]
    assert [token.text for token in two] == ["#", "Bob", "Ann"]
    assert entities(tmp_path / "dev.spacy") == [
        [("New York", "LOC")],
        [("Bob", "PER"), ("Ann", "PER")],
    ]


def write_trec(path, n_questions):
    """Questions that differ, with labels by turns; one letter is Latin-1."""
    lines = [f"{i % 6} What is caf\u00e9 {i} ?" for i in range(n_questions)]
    path.write_text("\n".join(lines) + "\n", "latin-1")


def test_convert_trec(tmp_path):
    write_trec(tmp_path / "TREC.test", 12)
    call("data.convert_trec", tmp_path / "TREC.test", tmp_path / "test.spacy")
    found = docs(tmp_path / "test.spacy")
    assert [token.text for token in found[7]] == ["What", "is", "caf\u00e9", "7", "?"]
    labels = ["description", "entity", "abbreviation", "human", "location", "number"]
    assert [max(doc.cats, key=doc.cats.get) for doc in found] == labels * 2
    assert all(sorted(doc.cats.values()) == [0.0] * 5 + [1.0] for doc in found)


def test_convert_trec_keeps_a_tenth_apart(tmp_path):
    """Chosen by the seed, in no other file, nothing lost."""
    write_trec(tmp_path / "TREC.train", 100)
    chosen = []
    for seed in (0, 0, 1):
        train, dev = tmp_path / "train.spacy", tmp_path / "dev.spacy"
        call("data.convert_trec", tmp_path / "TREC.train", train, "--dev", dev, "--seed", seed)
        texts, dev_texts = ([doc.text for doc in docs(path)] for path in (train, dev))
        assert len(dev_texts) == 10
        numbers = [int(text.split()[3]) for text in texts + dev_texts]
        assert sorted(numbers) == list(range(100))
        assert numbers[:90] == sorted(numbers[:90])
        chosen.append(dev_texts)
    assert chosen[0] == chosen[1] != chosen[2]


ROLES = '{"words": ["He", "gave", "up"], "frames": [{"pred": 1, "tags": ["B-ARG0", "B-V", "I-V"]}]}'


def test_convert_srl(tmp_path):
    """A sentence a line, none of which is split where it is read again."""
    (tmp_path / "roles.jsonl").write_text(f'{ROLES}\n{{"words": ["."], "frames": []}}\n', "utf8")
    printed = call("data.convert_srl", tmp_path / "roles.jsonl", tmp_path / "out" / "roles.spacy")
    assert "2 sentences, 4 tokens, 1 predicates, 1 roles" in printed
    one, two = docs(tmp_path / "out" / "roles.spacy")
    assert {label: [span.text for span in spans] for label, spans in one[1]._.srl.items()} == {
        "ARG0": ["He"],
        "V": ["gave up"],
    }
    assert len(two.spans["srl"]) == 0


SNLI = {
    "s1": "A man is n't here . \nIt rains . \nYes \n",
    "s2": "A man left . \nIt is dry . \nNo \n",
    "labels": "entailment\ncontradiction\nneutral\n",
}
TSV = 'sentence1\tsentence2\tgold_label\n"He\'s here.\tA "man" left.\tneutral\n'


def write_pairs(folder, **changed):
    for name, text in {**SNLI, **changed}.items():
        (folder / f"{name}.dev").write_text(text, "utf8")


def test_convert_pairs(tmp_path):
    """SNLI's tokens are kept, quotes are text, and the last pairs are apart."""
    write_pairs(tmp_path)
    (tmp_path / "more.tsv").write_text(TSV, "utf8")
    train, dev = tmp_path / "train.spacy", tmp_path / "dev.spacy"
    options = ("--dev", dev, "--n-dev", 1, "--more", tmp_path / "more.tsv")
    printed = call("data.convert_pairs", tmp_path, "dev", train, *options)
    assert "3 pairs" in printed
    assert "1 pairs" in printed
    found = [
        (
            [token.text for token in doc.spans["premise"][0]],
            [token.text for token in doc.spans["hypothesis"][0]],
            max(doc.cats, key=doc.cats.get),
        )
        for path in (train, dev)
        for doc in docs(path)
    ]
    assert found == [
        (["A", "man", "is", "n't", "here", "."], ["A", "man", "left", "."], "entailment"),
        (["It", "rains", "."], ["It", "is", "dry", "."], "contradiction"),
        (['"', "He", "'s", "here", "."], ["A", '"', "man", '"', "left", "."], "neutral"),
        (["Yes"], ["No"], "neutral"),
    ]


@pytest.mark.parametrize(
    ("changed", "more", "named"),
    [
        ({"labels": "entailment\n-\nneutral\n"}, TSV, "labels.dev:2:"),
        ({"s2": "A man\n"}, TSV, "equal numbers of lines"),
        ({}, TSV.replace("neutral", "none"), "more.tsv:2:"),
        ({}, TSV.split("\n", 1)[1], "more.tsv:1:"),
    ],
)
def test_convert_pairs_names_a_bad_line(tmp_path, changed, more, named):
    write_pairs(tmp_path, **changed)
    (tmp_path / "more.tsv").write_text(more, "utf8")
    where = (tmp_path, "dev", tmp_path / "train.spacy", "--more", tmp_path / "more.tsv")
    printed = call("data.convert_pairs", *where, fails=True)
    assert named.replace(" ", "") in printed.replace(" ", "")
    assert not (tmp_path / "train.spacy").exists()


def squad(n_articles):
    """A file of articles, each with one question; the context names the article."""
    question = {"question": "Who has cats?", "answers": [{"text": "Anna", "answer_start": 0}]}
    articles = []
    for i in range(n_articles):
        paragraph = {"context": f"Anna has {i} cats.", "qas": [{"id": str(i), **question}]}
        articles.append({"title": str(i), "paragraphs": [paragraph]})
    return {"data": articles}


QAMR = (
    "one\t1\t2\t0\t1\tWho ran ?\t0\t5:0 1\t6:0 3\n"  # the third answer has a gap
    "one\t1\t2\t0\t1\tWhere ?\t1 3\n"  # no other answer: left out
)


def test_convert_questions(tmp_path):
    """The last articles are test and dev set; other questions train, too."""
    (tmp_path / "squad.json").write_text(json.dumps(squad(5)), "utf8")
    (tmp_path / "qamr.tsv").write_text(QAMR, "utf8")
    (tmp_path / "sentences.tsv").write_text("one\tTom Lee ran -LRB- home\n", "utf8")
    more = tmp_path / "more.spacy"
    call("data.convert_qamr", tmp_path / "qamr.tsv", tmp_path / "sentences.tsv", more)
    options = ("--n-articles", 2, "--more", more)
    call("data.convert_squad", tmp_path / "squad.json", tmp_path / "qa", *options)
    found = {
        split: [
            (doc.spans["context"][0].text, [str(span) for span in doc.spans["answer"]])
            for doc in docs(tmp_path / f"qa-{split}.spacy")
        ]
        for split in ("train", "dev", "test")
    }
    assert found == {
        "train": [("Anna has 0 cats.", ["Anna"]), ("Tom Lee ran ( home", ["Tom", "Tom Lee"])],
        "dev": [("Anna has 1 cats.", ["Anna"]), ("Anna has 2 cats.", ["Anna"])],
        "test": [("Anna has 3 cats.", ["Anna"]), ("Anna has 4 cats.", ["Anna"])],
    }


def test_convert_questions_names_what_is_wrong(tmp_path):
    (tmp_path / "squad.json").write_text(json.dumps(squad(4)), "utf8")
    where = (tmp_path / "squad.json", tmp_path / "qa")
    assert "only 4 articles" in call("data.convert_squad", *where, "--n-articles", 2, fails=True)
    (tmp_path / "squad.json").write_text('{"data": [{}]}', "utf8")
    assert '"data"[0]["paragraphs"] is missing' in call("data.convert_squad", *where, fails=True)
    (tmp_path / "qamr.tsv").write_text(QAMR.replace("\t0\t5", "\t9\t5"), "utf8")
    (tmp_path / "sentences.tsv").write_text("one\tTom Lee ran -LRB- home\n", "utf8")
    files = (tmp_path / "qamr.tsv", tmp_path / "sentences.tsv", tmp_path / "out.spacy")
    printed = call("data.convert_qamr", *files, fails=True)
    assert "qamr.tsv:1:" in printed.replace(" ", "")
    assert not (tmp_path / "out.spacy").exists()


LITBANK = """#begin document (one); part 0
one\t0\t0\tThe\t_\t_\t_\t_\t_\t_\t_\t_\t(0
one\t0\t1\told\t_\t_\t_\t_\t_\t_\t_\t_\t
one\t0\t2\tman\t_\t_\t_\t_\t_\t_\t_\t_\t0)
one\t0\t3\tsaw\t_\t_\t_\t_\t_\t_\t_\t_\t
one\t0\t4\this\t_\t_\t_\t_\t_\t_\t_\t_\t(0)|(1
one\t0\t5\tcat\t_\t_\t_\t_\t_\t_\t_\t_\t1)

one\t0\t0\tHe\t_\t_\t_\t_\t_\t_\t_\t_\t(0)
one\t0\t1\tslept\t_\t_\t_\t_\t_\t_\t_\t_\t_

#end document
"""
ONTOGUM = """# newdoc id = two
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\tVB\t_\t0\troot\t_\tSpaceAfter=No
2\tn't\tnot\tPART\tRB\t_\t1\tadvmod\t_\t_
3\tsee\tsee\tVERB\tVB\t_\t1\tx\t_\t_
3.1\t_\t_\t_\t_\t_\t_\t_\t_\t_

1\tAnn\tAnn\tPROPN\tNNP\t_\t3\tposs\t_\tDiscourse=x:1->2|Entity=(4(1
2\t's\t's\tPART\tPOS\t_\t1\tcase\t_\tEntity=1)
3\tcat\tcat\tNOUN\tNN\t_\t0\troot\t_\tEntity=4)
4\tand\tand\tCCONJ\tCC\t_\t5\tcc\t_\t_
5\ther\ther\tPRON\tPRP\t_\t3\tconj\t_\tEntity=(1)(2)
6\tit\tit\tPRON\tPRP\t_\t3\tconj\t_\tEntity=(4)
"""


def coref_corpus(folder):
    """A folder of two documents, and a file that says which is for what."""
    (folder / "in").mkdir()
    (folder / "in" / "one.conll").write_text(LITBANK, "utf8")
    (folder / "in" / "two.conllu").write_text(ONTOGUM, "utf8")
    (folder / "splits.tsv").write_text("two\ttrain\none\ttest\n", "utf8")
    return folder / "in", folder / "splits.tsv", folder / "out" / "c"


def test_convert_coref(tmp_path):
    """Both formats; of two clusters of one mention the first has it."""
    printed = " ".join(call("data.convert_coref", *coref_corpus(tmp_path)).split())
    assert "c-test.spacy: 1 documents, 8 tokens, 4 mentions, 2 clusters" in printed
    assert "1 mentions left out" in printed
    (one,) = docs(tmp_path / "out" / "c-test.spacy")
    (two,) = docs(tmp_path / "out" / "c-train.spacy")
    assert docs(tmp_path / "out" / "c-dev.spacy") == []
    found = [
        {key: [span.text for span in doc.spans[key]] for key in doc.spans} for doc in (one, two)
    ]
    assert found == [
        {"coref_clusters_1": ["The old man", "his", "He"], "coref_clusters_2": ["his cat"]},
        {"coref_clusters_1": ["Ann 's", "her"], "coref_clusters_2": ["Ann 's cat", "it"]},
    ]
    assert [[sentence.start for sentence in doc.sents] for doc in (one, two)] == [[0, 6], [0, 3]]


@pytest.mark.parametrize(
    ("name", "before", "after", "named"),
    [
        ("one.conll", "0)", "3)", "one.conll:4: '3)' closes"),
        ("one.conll", "\t1)", "\t_", "one.conll: the mention '(1' is not closed"),
        ("one.conll", "\t_\t_\t_\t_", "", "one.conll:2: expected the columns"),
        ("two.conllu", "\t_\t_", "", "two.conllu:2: expected ten columns"),
    ],
)
def test_convert_coref_names_what_is_wrong(tmp_path, name, before, after, named):
    where = coref_corpus(tmp_path)
    path = where[0] / name
    path.write_text(path.read_text("utf8").replace(before, after), "utf8")
    printed = call("data.convert_coref", *where, fails=True)
    assert "".join(named.split()) in "".join(printed.split())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("line", "named"), [("three\tdev", "no three.conll"), ("one\tall", "name<TAB>train")]
)
def test_convert_coref_needs_all_documents(tmp_path, line, named):
    where = coref_corpus(tmp_path)
    where[1].write_text(f"{line}\n", "utf8")
    printed = call("data.convert_coref", *where, fails=True)
    assert "".join(named.split()) in "".join(printed.split())


WNUT17 = "In\tO\n"
A_BOB = "# text = A Bob\n1\tA\tO\t-\t-\n"


@pytest.mark.parametrize(
    ("name", "file", "text", "named"),
    [
        ("wnut17", "train.conll", WNUT17 + "New\tX-location\n", "2: token 1: expected the tag O"),
        *(
            ("sst5", "train.txt", f"{TREES}{line}\n", "3:")
            for line in ("(3 (2 A) (4 film)", "(3 A))", "(3 )", "(7 A)", "3 A film")
        ),
        *(
            ("uner", "dev.iob2", f"{A_BOB}{line}\n", "3:")
            for line in ("1\tBob", "Bob\t1\tB-PER", "2\tBob\tX-PER", "2\tBob\tI-PER")
        ),
        *(("trec", "TREC.test", f"0 How ?\n{line}\n", "2:") for line in ("6 Who ?", "Who ?", "1 ")),
        ("srl", "x.jsonl", ROLES.replace("B-V", "I-V"), "1: token 1: I-V follows B-ARG0"),
    ],
)
def test_a_bad_line_is_named(tmp_path, name, file, text, named):
    (tmp_path / file).write_text(text, "utf8")
    where = (tmp_path / file, tmp_path / "out.spacy", *(["--phrases"] if name == "sst5" else []))
    printed = call(f"data.convert_{name}", *where, fails=True)
    assert f"{file}:{named}".replace(" ", "") in printed.replace(" ", "")
    assert not (tmp_path / "out.spacy").exists()


# Homographs


ROWS = (
    '"bass"\t"bass_corp"\t"A naïve Bass swam ""off""."\t8\t12\n'
    '"bass"\t"bass"\t"The bass guitar."\t5\t9\n'  # wrong offsets
    '"bass"\t"bass"\t"The bassline."\t4\t8\n'  # a part of a token
    '"bass"\t"bass"\t"Loud bass"\t5\t9\n'
)
CONTENT = ("\ufeffhomograph\twordid\tsentence\tstart\tend\n" + ROWS).encode("utf8")


def test_homographs(tmp_path, capsys):
    (tmp_path / "bass.tsv").write_bytes(CONTENT)
    main(tmp_path, tmp_path / "out" / "train.spacy")
    docs = DocBin().from_disk(tmp_path / "out" / "train.spacy").get_docs(spacy.blank("en").vocab)
    found = [(doc.text, [(s.text, s.label_) for s in doc.spans["senses"]]) for doc in docs]
    assert found == [
        ('A naïve Bass swam "off".', [("Bass", "bass_corp")]),
        ("Loud bass", [("bass", "bass")]),
    ]
    shown = " ".join(capsys.readouterr().out.split())
    assert "2 sentences, 2 senses" in shown
    assert "wrong offsets: 1" in shown
    assert "a part of a token: 1" in shown


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "contains no .tsv file"),
        (b"word\twordid\n", "bass.tsv: expected the columns"),
        (CONTENT.replace(b"\t9\n", b"\tx\n", 1), "bass.tsv:3: start and end must be numbers"),
        (CONTENT.replace(b"\t9\n", b"\n", 1), "bass.tsv:3: expected 5 columns"),
        (CONTENT.replace(b"\t9\n", b"\t9\t9\n", 1), "bass.tsv:3: expected 5 columns"),
        (CONTENT.replace("ï".encode(), b"\xff"), "utf-8"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, monkeypatch, capsys, content, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    if content is not None:
        (tmp_path / "in" / "bass.tsv").write_bytes(content)
    with pytest.raises(SystemExit):
        main((tmp_path / "in").relative_to(tmp_path), tmp_path / "out.spacy")
    assert message in " ".join(capsys.readouterr().out.split())
    assert not (tmp_path / "out.spacy").exists()


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


def test_repairs(tmp_path):
    (tmp_path / "one.bio").write_text(REPAIRED, "utf8")
    shown = call("data.convert_europeana", tmp_path / "one.bio", tmp_path / "out" / "one")
    found = [doc for part in ("train", "dev", "test") for doc in docs(part_of(tmp_path, part))]
    words = [token.text for doc in found for token in doc]
    assert words[:6] == ["Sir", "Robert", "DeutscheBank", "höre", "worden", "Bür"]
    assert words[-2:] == ["#", "Verband"]
    assert [(ent.text.strip(), ent.label_) for doc in found for ent in doc.ents] == [
        ("Sir Robert", "PER"),
        ("DeutscheBank", "ORG"),
        ("Gruber", "PER"),
        ("Wien", "LOC"),
        ("Ulm", "LOC"),
        ("Tageblatts", "ORG"),
        ("Anna", "PER"),
        ("Berg", "LOC"),
        ("Verband", "ORG"),
    ]
    counts = ("comment left out 3", "other tag 6", "spaces in a token 1", "tag missing 1")
    for count in (*counts, "tag unknown 1", "I-MISC 1", "I to B 3"):
        assert count in shown, count


def part_of(folder, part):
    return folder / "out" / f"one-{part}.spacy"


def test_sentences_and_blocks(tmp_path):
    """Cut after marks and 60 tokens, never in an entity; in order; nothing is lost."""
    short = [f"Wort{i} O\n. O\n" for i in range(300)]
    long = [f"w{i} O\n" for i in range(59)] + ["St B-LOC\n", ". I-LOC\n", "Pölten I-LOC\n", "x O\n"]
    (tmp_path / "one.bio").write_text("".join(short + long), "utf8")
    call("data.convert_europeana", tmp_path / "one.bio", tmp_path / "out" / "one")
    train, dev, test = (docs(part_of(tmp_path, part)) for part in ("train", "dev", "test"))
    assert {len(doc) for doc in train} == {2}
    lines = [line.split()[0] for line in "".join(short + long).splitlines()]
    assert [token.text for doc in train + dev + test for token in doc] == lines
    assert sum(map(len, train)) in (530, 532)  # 80 % of 663
    assert sum(map(len, dev)) in (66, 68)
    assert [ent.text.strip() for doc in dev + test for ent in doc.ents] == ["St . Pölten"]
    assert max(map(len, train + dev + test)) == 62
