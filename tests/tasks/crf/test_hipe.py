"""Entities in the TSV files of HIPE: spaces, sentences, and words that are cut at line ends."""

import pytest
import spacy
from spacy.tokens import DocBin
from thinc.api import Config

from spacy_elmo.cli.evaluate import read_gold_examples
from spacy_elmo.tasks.crf.hipe import make_hipe_corpus, read_hipe

from helpers.commands import shown_by
from helpers.gzipped import gzipped

HEADER = "TOKEN NE-COARSE-LIT NE-COARSE-METO NE-FINE-LIT NE-NESTED NEL-LIT NEL-METO MISC"
ABOUT = "# hipe2022:document_id = NZZ-1798\n# hipe2022:date = 1798-01-20\n# segment = _\n"
NLP = spacy.blank("de")


def write(path, *documents, about=ABOUT):
    """Documents of lines `token tag flags`; all other columns are empty."""
    texts = [HEADER.replace(" ", "\t") + "\n"]
    for document in documents:
        texts.append(about)
        for line in document:
            token, tag, flags, *cells = line.split(" ")
            row = {"TOKEN": token, "NE-COARSE-LIT": tag, "MISC": flags}
            row |= dict(cell.split("=") for cell in cells)
            texts.append("\t".join(row.get(name, "_") for name in HEADER.split()) + "\n")
        texts.append("\n")
    path.write_text("".join(texts), "utf8")
    return path


def read(path, **settings):
    examples = list(make_hipe_corpus(path, **settings)(NLP))
    for example in examples:
        assert [*map(str, example.predicted)] == [*map(str, example.reference)]
        assert not example.predicted.has_annotation("ENT_IOB")
    return [example.reference for example in examples]


def entities(doc):
    return [(span.text, span.label_) for span in doc.ents]


CITY = [
    "( O NoSpaceAfter",
    "# O _",
    "Neu B-loc NoSpaceAfter NEL-LIT=Q60",
    "- I-loc NoSpaceAfter NEL-LIT=Q60",
    "York I-loc NoSpaceAfter|EndOfLine NEL-LIT=Q60",
    ") O EndOfSentence",
    "Dr O NoSpaceAfter",
    ". B-pers EndOfLine|EndOfSentence NEL-LIT=NIL",
    "Ingwer I-pers NoSpaceAfter NEL-LIT=NIL",
    ". O ",
]


def test_spaces_sentences_links_and_metadata(tmp_path):
    """No sentence ends within an entity; a token `#` is no comment."""
    path = write(tmp_path / "a.tsv", CITY, CITY[:2])
    docs = read(path)
    assert [doc.text for doc in docs] == ["(# Neu-York) ", "Dr. Ingwer. ", "(# "]
    assert [entities(doc) for doc in docs] == [[("Neu-York", "loc")], [(". Ingwer", "pers")], []]
    assert [span.kb_id_ for doc in docs for span in doc.ents] == ["Q60", "NIL"]
    assert {tuple(doc.user_data.items()) for doc in docs} == {
        (("source", "NZZ-1798"), ("date", "1798-01-20"))
    }
    whole, last = read(path, by_sentence=False)
    assert whole.text == docs[0].text + docs[1].text and last.text == docs[2].text
    assert [sentence.text for sentence in whole.sents] == ["(# Neu-York)", "Dr.", "Ingwer."]
    assert [doc.has_annotation("ENT_IOB") for doc in docs] == [True] * 3
    packed = gzipped(path.read_bytes())
    (tmp_path / "a.tsv.gz").write_bytes(packed)
    assert [doc.text for doc in read(tmp_path / "a.tsv.gz")] == [doc.text for doc in docs]


CUT = [
    # Two tokens, and three: both are in the published files.
    (["Fett¬ O NoSpaceAfter|EndOfLine", "waarenfabrik B-org _"], ["Fettwaarenfabrik"]),
    (["Sei B-loc NoSpaceAfter", "¬ I-loc EndOfLine", "neufer I-loc _"], ["Seineufer"]),
    (["vorge⸗ O _", "legten O _", "Teil¬ O EndOfSentence", "en O _"], ["vorgelegten", "Teilen"]),
    (["a¬ O EndOfLine", "b¬ O EndOfLine", "c O _"], ["abc"]),
    (
        ["Bru\u0364- O EndOfLine", "cke O _", "Wal= O EndOfLine", "len O _"],
        ["Bru\u0364cke", "Wallen"],
    ),
    # These are no cut words.
    (["Lehrer⸗ O EndOfLine", "Gesetz O _"], ["Lehrer⸗", "Gesetz"]),
    (["Haupt¬ O EndOfLine", "und O _", "Nebensache O _"], ["Haupt¬", "und", "Nebensache"]),
    (["a- O _", "b O _", "- O EndOfLine", "c O _"], ["a-", "b", "-", "c"]),
    (["a O _", "¬ O EndOfLine", "b O _"], ["a", "¬", "b"]),
    (["¬ O EndOfLine", "b O _", "c¬ O EndOfLine"], ["¬", "b", "c¬"]),
]


@pytest.mark.parametrize(("lines", "words"), CUT, ids=["-".join(words) for _, words in CUT])
def test_words_that_are_cut_at_line_ends_are_joined(tmp_path, lines, words):
    (doc,) = read(write(tmp_path / "a.tsv", lines), by_sentence=False)
    assert [token.text for token in doc] == words
    tags = {line.split(" ")[1][2:] for line in lines} - {""}
    assert {(words[0], tag) for tag in tags} == {*entities(doc)}


def test_entities_that_share_a_joined_word(tmp_path):
    """The first one gets the word. An I that continues nothing begins an entity."""
    lines = ["Nord¬ B-a EndOfLine", "see B-b _", "und I-b _", "See I-c _", "Rom B-c _"]
    (doc,) = read(write(tmp_path / "a.tsv", lines))
    assert entities(doc) == [("Nordsee", "a"), ("und", "b"), ("See", "c"), ("Rom", "c")]
    (doc,) = read(write(tmp_path / "b.tsv", ["Nord¬ B-a EndOfLine", "see B-b _", "ab O _"]))
    assert entities(doc) == [("Nordsee", "a")]


def test_documents_without_sentences(tmp_path):
    """A document without any end of a sentence has no sentences, rather than one."""
    path = write(tmp_path / "a.tsv", ["In O _", "Rom B-loc _"], ["In O PySBDSegment", "Rom O _"])
    unknown, one, two = read(path)
    assert not unknown.has_annotation("SENT_START")
    assert one.has_annotation("SENT_START") and two.has_annotation("SENT_START")
    assert (one.text, two.text) == ("In ", "Rom ")


def test_a_token_can_be_white_space(tmp_path):
    (tmp_path / "a.tsv").write_text("TOKEN\tNE-COARSE-LIT\n\u00a0\tO\nRom\tB-loc\n", "utf8")
    (doc,) = read(tmp_path / "a.tsv")
    assert [token.text for token in doc] == ["\u00a0", "Rom"]


def test_every_column_of_tags_can_be_read(tmp_path):
    lines = ["Rath O _ NE-FINE-LIT=B-org.adm NE-NESTED=O", "Rom O _ NE-FINE-LIT=O NE-NESTED=B-loc"]
    path = write(tmp_path / "a.tsv", lines)
    assert entities(read(path, column="NE-FINE-LIT")[0]) == [("Rath", "org.adm")]
    assert entities(read(path, column="NE-NESTED")[0]) == [("Rom", "loc")]
    (doc,) = read(path, column="NE-NESTED", spans_key="nested")
    assert [(span.text, span.label_) for span in doc.spans["nested"]] == [("Rom", "loc")]
    assert not doc.has_annotation("ENT_IOB")
    with pytest.raises(ValueError, match=r"a\.tsv: no token has a tag in the column 'NE-COARSE-M"):
        read(path, column="NE-COARSE-METO")
    with pytest.raises(ValueError, match="column 'NEL-LIT'. Give one of: NE-COARSE-LIT, NE-COARSE"):
        read(path, column="NEL-LIT")


def test_hidden_tags_are_no_annotation(tmp_path):
    path = write(tmp_path / "a.tsv", ["Rom B-loc _", "ist _ _"], ["Rom _ _"])
    half = write(tmp_path / "b.tsv", ["Was¬ _ _", "ser B-loc _", "ist _ _"])
    (doc,) = read(half)
    assert [token.ent_iob_ for token in doc] == ["B", ""]
    some, none = read(path)
    assert [token.ent_iob_ for token in some] == ["B", ""]
    assert not none.has_annotation("ENT_IOB")
    with pytest.raises(ValueError, match=r"a\.tsv: token 1 \('ist'\) .* has no entity annotation"):
        read(path, spans_key="places")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"a\.tsv is empty"),
        ("Wien\tB-LOC\n", r"a\.tsv:1: expected the header .* begins with TOKEN, found 'Wien'"),
        (f"{HEADER}\n", r"a\.tsv:1: expected the header"),
        ("TOKEN\tNE-COARSE-LIT\tMISC\nWien\tO\n", r"a\.tsv:2: expected a token and 2 more"),
        ("TOKEN\tNE-COARSE-LIT\tMISC\n\tO\t_\n", r"a\.tsv:2: expected a token"),
        ("TOKEN\tNE-COARSE-LIT\tMISC\n\nWien\tLOC\t_\n", r"a\.tsv:3: expected the tag O, .*'LOC'"),
        ("TOKEN\tNE-COARSE-LIT\tNE-COARSE-LIT\nWien\tO\tO\n", r"a\.tsv:1: several columns have"),
        ("TOKEN\tNE-COARSE-LIT\tMISC\nWien\tO\t_\n\u00a0\n", r"a\.tsv:3: expected a token"),
        ("TOKEN\tNE-COARSE-LIT\tMISC\nWien\tB-\t_\n", r"a\.tsv:2: expected the tag O, .*'B-'"),
        ("TOKEN\tNE-COARSE-LIT\tMISC\nW\udcffn\tO\t_\n", r"a\.tsv:2: not UTF-8"),
    ],
)
def test_wrong_files_are_named(tmp_path, content, message):
    (tmp_path / "a.tsv").write_bytes(content.encode("utf8", "surrogateescape"))
    with pytest.raises(ValueError, match=message):
        list(read_hipe(tmp_path / "a.tsv", NLP.vocab))


@pytest.mark.commands
def test_init_training_and_evaluate_read_tsv_files(here, tiny_weights):
    """Components of entities need no conversion: `init-training` writes the reader."""
    path = write(here / "a.v1.tsv", CITY)
    data = ("--train", path, "--dev", path, "--lang", "de", "--weights", tiny_weights)
    for name in ("ner", "elmo_crf"):
        shown_by("init-training", f"{name}.cfg", "--pipeline", name, *data)
        config = Config().from_disk(f"{name}.cfg")
        block = {"@readers": "spacy-elmo.HIPECorpus.v1", "column": "NE-COARSE-LIT"}
        assert config["corpora"]["dev"] == {**block, "path": str(path)}
    nlp = spacy.blank("de", config={"corpora": config["corpora"], "paths": config["paths"]})
    assert len(read_gold_examples(nlp, path)) == 2
    shown = shown_by("init-training", "a.cfg", "--pipeline", "tagger", *data, status=1)
    assert "must be a .spacy file" in shown


def test_docs_keep_source_and_date_in_a_spacy_file(tmp_path):
    path = write(tmp_path / "a.tsv", CITY)
    DocBin(docs=read(path), store_user_data=True).to_disk(tmp_path / "a.spacy")
    (doc, _) = DocBin().from_disk(tmp_path / "a.spacy").get_docs(NLP.vocab)
    assert (doc.user_data["date"], doc.text) == ("1798-01-20", "(# Neu-York) ")
