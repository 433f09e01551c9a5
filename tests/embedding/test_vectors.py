"""Vectors and similarities of tokens, spans and Docs, from `doc.tensor` or as in spaCy without
it."""

import warnings

import numpy as np
import pytest
from spacy.tokens import Doc, DocBin

from spacy_elmo.embedding.vectors import keep_vectors, restore_vectors

pytestmark = pytest.mark.pipelines

TEXT = "The bank of the river , a bank lends money ."


def cosine(one, two):
    one, two = np.asarray(one, "float64"), np.asarray(two, "float64")
    return one @ two / np.sqrt((one @ one) * (two @ two))


@pytest.fixture(params=["no static vectors", "static vectors"])
def nlp(request, make_nlp):
    nlp = make_nlp(mix="top")
    if request.param == "static vectors":
        for word in ("bank", "river", "money"):
            nlp.vocab.set_vector(word, np.random.default_rng(len(word)).normal(size=7))
    return nlp


def test_vectors_are_rows_and_means_of_the_tensor(nlp):
    doc, other = nlp(TEXT), nlp("Money !")
    for item, mean in (
        (doc[3], doc.tensor[3]),
        (doc[2:5], doc.tensor[2:5].mean(0)),
        (doc, doc.tensor.mean(0)),
        (doc[6:10].as_doc()[1:3], doc.tensor[7:9].mean(0)),
    ):
        assert item.has_vector
        np.testing.assert_allclose(item.vector, mean, rtol=1e-6)
        assert item.vector_norm == pytest.approx(np.linalg.norm(mean), rel=1e-5)
        for second in (doc[7], doc[1:3], other, other[0]):
            found = item.similarity(second)
            assert isinstance(found, float)
            assert found == pytest.approx(cosine(mean, second.vector), abs=1e-6)
    assert doc[1].text == doc[7].text == "bank"
    # Not 1, as for equal words without a hook.
    assert max(doc[1].similarity(doc[7]), doc[1:2].similarity(doc[7:8])) < 0.999


def test_similarity_to_lexemes_and_empty_docs(nlp):
    doc = nlp(TEXT)
    bank, money = nlp.vocab["bank"], nlp.vocab["money"]
    assert doc[1].similarity(bank) == 1.0  # two Lexemes of one word
    if nlp.vocab.vectors_length:  # both as they are without a context
        assert doc[1].similarity(money) == pytest.approx(cosine(bank.vector, money.vector))
    else:
        with pytest.warns(UserWarning, match="'money' is a Lexeme"):
            assert doc[1].similarity(money) == 0.0
    with pytest.warns(UserWarning, match="'money' is a Lexeme"):
        assert doc[1:3].similarity(money) == 0.0
    empty = nlp("")
    assert not empty.has_vector
    np.testing.assert_array_equal(empty.vector, np.zeros(12))
    assert doc.similarity(empty) == 0.0
    np.testing.assert_array_equal(doc[2:2].vector, np.zeros(12))


def test_retokenized_and_joined_docs_get_their_vectors_back(nlp):
    docs = [nlp(TEXT), nlp(""), nlp("Money !")]
    joined = Doc.from_docs(docs)
    assert joined[1].similarity(joined[7]) == 1.0  # of equal words, by spaCy
    restore_vectors(joined)
    assert joined[1].similarity(joined[7]) == docs[0][1].similarity(docs[0][7])
    np.testing.assert_array_equal(joined[11].vector, docs[2][0].vector)
    with docs[0].retokenize() as retokenizer:
        retokenizer.merge(docs[0][0:2])
    assert len(docs[0].tensor) == len(docs[0])
    np.testing.assert_array_equal(docs[0][1].vector, docs[0].tensor[1])


def test_vectors_are_restored_after_bytes_and_docbin(nlp):
    """Bytes lose the hooks; a DocBin loses the tensor, too, unless it is kept."""
    doc = nlp(TEXT)
    tensor = doc.tensor.copy()

    def through_docbin():
        data = DocBin(store_user_data=True, docs=[doc]).to_bytes()
        return next(iter(DocBin().from_bytes(data).get_docs(nlp.vocab)))

    with pytest.raises(ValueError, match="keep_vectors"):
        restore_vectors(through_docbin())
    with pytest.warns(UserWarning, match="hooks"):
        data = doc.to_bytes()
    kept = keep_vectors(doc)
    for loaded in (Doc(nlp.vocab).from_bytes(data), through_docbin()):
        np.testing.assert_array_equal(restore_vectors(loaded).tensor, tensor)
        np.testing.assert_array_equal(loaded[7].vector, tensor[7])
        assert loaded[1].similarity(loaded[7]) == kept[1].similarity(kept[7])


@pytest.mark.parametrize("mix", ["mean", True, 3, -1, [0.5, 0.5]])
def test_impossible_mixes_are_refused(mix, make_nlp):
    with pytest.raises(ValueError, match="mix"):
        make_nlp(mix=mix)("a")


@pytest.mark.filterwarnings("ignore:.*W00[78].*")
def test_without_a_tensor_vectors_are_those_of_spacy(nlp):
    """`doc_cleaner` has removed the tensor of one Doc; spaCy made the other from the same text."""
    nlp.add_pipe("doc_cleaner", config={"attrs": {"tensor": None}})
    doc, plain = nlp(TEXT), nlp.make_doc(TEXT)
    lexemes = [(nlp.vocab[word], nlp.vocab[word]) for word in ("river", "the")]
    wholes = [(doc, plain), (doc[1:5], plain[1:5]), (doc[1], plain[1])]
    others = [(doc, plain), (doc[4:5], plain[4:5]), *((doc[i], plain[i]) for i in (7, 9)), *lexemes]
    for ours, theirs in wholes:
        assert ours.vector_norm == theirs.vector_norm
        for our, their in others:
            assert ours.similarity(our) == ours.similarity(their) == theirs.similarity(their)
    for ours, theirs in (*wholes, (doc[:0], plain[:0])):
        assert ours.has_vector == theirs.has_vector
        np.testing.assert_array_equal(ours.vector, theirs.vector)


def split(doc):
    """Split a token: spaCy keeps a tensor with another number of rows."""
    with doc.retokenize() as retokenizer:
        retokenizer.split(doc[1], ["S", "he"], heads=[doc[0], doc[0]])
    assert len(doc.tensor) not in (0, len(doc))


def clean(doc):
    doc.tensor = None


def cut(doc):
    """Keep another number of rows, as a component can."""
    doc.tensor = doc.tensor[:-1]


@pytest.mark.parametrize(
    ("change", "reason"),
    [(split, "retokenized after 'elmo'"), (cut, "retokenized"), (clean, "tensor is empty")],
)
def test_similarity_without_vectors_warns_as_in_spacy(nlp, change, reason):
    """Each kind of item is compared, in both orders."""
    doc, other = nlp("Maria She lends"), nlp("A bank lends money")
    change(doc)
    pairs = [(doc, other), (doc[0:2], other), (doc[0], other[1]), (doc[0], other[0:2])]
    for empty, full, turned in [(*pair, turned) for pair in pairs for turned in (False, True)]:
        one, two = (full, empty) if turned else (empty, full)
        with pytest.warns(UserWarning, match=reason) as caught:
            assert one.similarity(two) == 0.0
        text = " ".join(str(warning.message) for warning in caught)
        assert ("[W007]" in text) == (nlp.vocab.vectors.n_keys == 0)
        assert f"[W008] Evaluating {type(empty).__name__}.similarity" in text
    with pytest.raises(ValueError, match=reason):
        restore_vectors(doc)


def test_similarity_with_vectors_does_not_warn(nlp):
    doc, other = nlp("Maria lends"), nlp("A bank lends money")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert doc.similarity(other) != 0
        assert doc[:0].similarity(other) == 0  # no words, as in spaCy


def test_a_restored_tensor_is_read_again(nlp):
    doc = keep_vectors(nlp(TEXT))
    vector, doc.tensor = doc[1].vector, None
    assert doc[1].vector.shape == (nlp.vocab.vectors_length,)
    np.testing.assert_array_equal(restore_vectors(doc)[1].vector, vector)


def test_vectors_of_two_widths_cannot_be_compared(make_nlp):
    """One Doc lost its tensor, and another comes from another pipeline."""
    nlp = make_nlp()
    nlp.vocab.set_vector("bank", np.ones(7))
    doc, other, narrow = nlp(TEXT), nlp(TEXT), nlp(TEXT)
    other.tensor, narrow.tensor = None, np.ones((len(doc), 5), dtype="f")
    pairs = {"12 and 7": (doc, other), "7 and 12": (other, doc), "12 and 5": (doc, narrow)}
    for widths, (one, two) in pairs.items():
        with pytest.raises(ValueError, match=f"vectors of {widths} dimensions"):
            one[1].similarity(two[1])
