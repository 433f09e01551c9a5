"""The corpora of whole pipelines: treebanks with entities, and tweets."""

import hashlib

import pytest

from helpers.project_scripts import call, docs
from scripts.data.gum_entities import named_entities

TREEBANK = """# newdoc id = one
# sent_id = one-1
# newpar id = one-p1
# text = Bob ran.
1\tBob\tBob\tPROPN\tNNP\tNumber=Sing\t2\tnsubj\t_\t_
2\tran\trun\tVERB\tVBD\t_\t0\troot\t_\tSpaceAfter=No
3\t.\t.\tPUNCT\t.\t_\t2\tpunct\t_\t_

# sent_id = one-2
1\tHe\the\tPRON\tPRP\t_\t2\tnsubj\t_\t_
2\tslept\tsleep\tVERB\tVBD\t_\t0\troot\t_\t_

# sent_id = one-3
# newpar id = one-p2
1\tNew\tNew\tPROPN\tNNP\t_\t2\tcompound\t_\t_
2\tYork\tYork\tPROPN\tNNP\t_\t3\tnsubj\t_\t_
3\twon\twin\tVERB\tVBD\t_\t0\troot\t_\t_

# newdoc id = two
# sent_id = two-1
1\tAnn\tAnn\tPROPN\tNNP\t_\t0\troot\t_\t_
"""
# The first sentence has other tokens, the second no entities, the third is missing.
ENTITIES = """# sent_id = one-1
1\tBob\tB-PER\t-\tx
2\tran.\tO\t-\tx

# sent_id = one-2
1\tHe\tO\t-\tx
2\tslept\tO\t-\tx

# sent_id = two-1
1\tAnn\tB-PER\t-\tx
"""


@pytest.fixture
def convert(here):
    (here / "one.conllu").write_text(TREEBANK, "utf8")
    (here / "one.iob2").write_text(ENTITIES, "utf8")

    def convert(*arguments):
        call("data.convert_treebank", *arguments, "out.spacy")
        return docs("out.spacy")

    return convert


def test_a_document_with_paragraphs(convert):
    first, second = convert("one.conllu", "--entities", "one.iob2")
    assert first.text == "Bob ran. He slept \n\nNew York won "
    assert [sent.text for sent in first.sents] == ["Bob ran.", "He slept \n\n", "New York won"]
    space = first[5]
    assert (space.tag_, space.pos_, space.head.text, space.dep_) == ("_SP", "SPACE", "slept", "dep")
    assert [(token.lemma_, token.head.i) for token in first[6:]] == [
        ("New", 7),
        ("York", 8),
        ("win", 8),
    ]
    assert [(ent.text, ent.label_) for ent in first.ents] == [("Bob", "PER")]
    assert "".join(token.ent_iob_ or "-" for token in first) == "BOOOOO---"
    assert [ent.text for ent in second.ents] == ["Ann"]


def test_the_number_of_sentences_closes_a_doc_between_paragraphs(convert):
    texts = [doc.text for doc in convert("one.conllu", "--sentences", "1")]
    assert texts == ["Bob ran. He slept ", "New York won ", "Ann "]


def test_single_sentences(convert):
    texts = [doc.text for doc in convert("one.conllu", "--single")]
    assert texts == ["Bob ran. ", "He slept ", "New York won ", "Ann "]


def test_without_entities_nothing_is_annotated(convert):
    assert not any(doc.has_annotation("ENT_IOB") for doc in convert("one.conllu"))


def test_documents_of_a_part(convert, here):
    (here / "parts.tsv").write_text("one\ttrain\ntwo\tdev\n", "utf8")
    assert len(convert(here, "--documents", "parts.tsv", "--part", "train")) == 2
    arguments = (here, "--documents", "parts.tsv", "out.spacy", "--part")
    assert "two.conllu is missing" in call("data.convert_treebank", *arguments, "dev", fails=True)
    shown = call("data.convert_treebank", *arguments, "test", fails=True)
    assert "has no documents of 'test'" in shown
    checksum = hashlib.md5(TREEBANK.encode()).hexdigest()
    assert len(convert(*arguments[:3], "--part", "train", "--checksum", checksum)) == 2
    shown = call("data.convert_treebank", *arguments, "train", "--checksum", "0", fails=True)
    assert f"have the MD5 {checksum}, expected 0" in shown


def rows(text):
    """Lines of CoNLL-U: word, tag, head, relation and mentions."""
    lines = []
    for number, line in enumerate(text.strip().splitlines(), 1):
        word, tag, head, relation, entity = line.split()
        misc = f"Entity={entity}" if entity != "_" else "_"
        lines.append("\t".join((str(number), word, word, "X", tag, "_", head, relation, "_", misc)))
    return lines


@pytest.mark.parametrize(
    ("text", "entities"),
    [
        # A title is no part of a name; a mention without a proper noun is none.
        (
            """the DT 2 det (1-person-x
            mayor NN 0 root 1)
            President NNP 4 nmod:desc (2-person-x
            Ann NNP 2 appos _
            Lee NNP 4 flat 2)""",
            [(3, 5, "PER")],
        ),
        # The longest name remains, and an organization may have "of".
        (
            """the DT 2 det (1-organization-x
            University NNP 0 root _
            of IN 4 case _
            Texas NNP 2 nmod (2-place-x)
            there RB 2 advmod 1)""",
            [(1, 4, "ORG")],
        ),
        # A place in a mention of something else; "United" has the part of speech ADJ in GUM.
        (
            """war NN 0 root (1-event-x
            in IN 4 case _
            United NNP 4 amod (2-place-x
            States NNPS 1 nmod 2)1)""",
            [(2, 4, "LOC")],
        ),
        # A relative clause, and a mention that another sentence opened.
        (
            """Ann NNP 0 root 7)(1-person-x
            of IN 3 case _
            Rome NNP 1 nmod 1)""",
            [(0, 1, "PER")],
        ),
    ],
)
def test_names_of_gum(text, entities):
    assert named_entities(rows(text)) == entities


def test_mentions_become_entities(convert, here):
    lines = "\n".join(rows("Rome NNP 2 nsubj (1-place-x)\nwon VBD 0 root _"))
    (here / "gum.conllu").write_text(lines, "utf8")
    (doc,) = convert("gum.conllu", "--mentions")
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("Rome", "LOC")]


def test_the_second_half_of_the_last_section_is_the_dev_set(here):
    (here / "a.conll").write_text("Bob\tB-PER\n\nAnn\tB-PER\n", "utf8")
    (here / "h.conll").write_text("".join(f"{i}\tO\n\tO\n\n" for i in range(5)), "utf8")
    call("data.convert_btc", "a.conll", "h.conll", "--train", "train.spacy", "--dev", "dev.spacy")
    found = [[doc.text.strip() for doc in docs(f"{part}.spacy")] for part in ("train", "dev")]
    assert found == [["Bob", "Ann", "0", "1"], ["2", "3", "4"]]


def test_mentions_of_users_are_one_token_and_no_entity(here):
    words = ["@", "ann", "Lee", "met", "Bob", "Ray", "@joe", "x", "@"]
    tags = ["B-PER", "B-PER", "I-PER", "O", "B-PER", "I-PER", "B-PER", "O", "B-ORG"]
    lines = [f"{word}\t{tag}\n" for word, tag in zip(words, tags)]
    (here / "a.conll").write_text("".join([*lines, "\n", "x\tO\n"]), "utf8")
    call("data.convert_btc", "a.conll", "--train", "train.spacy", "--dev", "dev.spacy")
    (doc,) = docs("train.spacy")
    assert [token.text for token in doc] == ["@ann", "Lee", "met", "Bob", "Ray", "@joe", "x", "@"]
    assert [ent.text for ent in doc.ents] == ["Bob Ray"]
