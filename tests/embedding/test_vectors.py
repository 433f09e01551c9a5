import numpy as np
import pytest
import spacy
from spacy.tokens import Doc, DocBin

from spacy_elmo.embedding.vectors import keep_vectors, mix_layers, restore_vectors

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


def test_same_word_in_two_contexts(nlp):
    doc = nlp(TEXT)
    one, two = doc[1], doc[7]
    assert one.text == two.text == "bank"
    assert one.similarity(two) < 0.999  # not 1, as for equal words without a hook
    assert one.similarity(two) == pytest.approx(cosine(doc.tensor[1], doc.tensor[7]), abs=1e-6)
    assert isinstance(one.similarity(two), float)


def test_vectors_are_rows_and_means_of_the_tensor(nlp):
    doc = nlp(TEXT)
    np.testing.assert_array_equal(doc[3].vector, doc.tensor[3])
    np.testing.assert_allclose(doc[2:5].vector, doc.tensor[2:5].mean(0), rtol=1e-6)
    np.testing.assert_allclose(doc.vector, doc.tensor.mean(0), rtol=1e-6)
    assert doc[3].has_vector
    assert doc[2:5].has_vector
    assert doc.has_vector
    assert doc[3].vector_norm == pytest.approx(np.linalg.norm(doc.tensor[3]))
    assert doc[2:5].vector_norm == pytest.approx(np.linalg.norm(doc.tensor[2:5].mean(0)))
    assert doc.vector_norm == pytest.approx(np.linalg.norm(doc.tensor.mean(0)), rel=1e-5)


def test_similarity_of_docs_and_spans(nlp):
    doc, other = nlp(TEXT), nlp("Money !")
    assert doc.similarity(other) == pytest.approx(cosine(doc.vector, other.vector), abs=1e-6)
    assert doc[1:3].similarity(other[0]) == pytest.approx(
        cosine(doc[1:3].vector, other[0].vector), abs=1e-6
    )
    assert doc[1:2].similarity(doc[7:8]) < 0.999  # the same text


def test_span_as_doc(nlp):
    doc = nlp(TEXT)
    part = doc[6:10].as_doc()
    np.testing.assert_array_equal(part[1].vector, doc.tensor[7])
    np.testing.assert_allclose(part[1:3].vector, doc.tensor[7:9].mean(0), rtol=1e-6)


def test_lexeme_and_empty(nlp):
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


def test_similarity_across_pipelines(nlp):
    other = Doc(nlp.vocab, words=["bank"])
    other.tensor = np.ones((1, 5), dtype="f")
    restore_vectors(other)
    with pytest.raises(ValueError, match="12 and 5"):
        nlp(TEXT)[1].similarity(other[0])


def test_retokenised(make_nlp):
    doc = make_nlp()(TEXT)
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[0:2])
    assert len(doc.tensor) == len(doc)
    np.testing.assert_array_equal(doc[1].vector, doc.tensor[1])


def test_bytes_lose_hooks_and_restore_vectors_puts_them_back(nlp):
    doc = nlp(TEXT)
    with pytest.warns(UserWarning, match="hooks"):
        data = doc.to_bytes()
    loaded = restore_vectors(Doc(nlp.vocab).from_bytes(data))
    np.testing.assert_array_equal(loaded[1].vector, doc.tensor[1])
    assert loaded[1].similarity(loaded[7]) == doc[1].similarity(doc[7])


def test_docbin_loses_the_tensor_unless_kept(nlp):
    doc = nlp(TEXT)
    tensor = doc.tensor.copy()
    plain = DocBin(store_user_data=True, docs=[doc])
    lost = next(iter(DocBin().from_bytes(plain.to_bytes()).get_docs(nlp.vocab)))
    with pytest.raises(ValueError, match="keep_vectors"):
        restore_vectors(lost)
    kept = DocBin(store_user_data=True, docs=[keep_vectors(doc)])
    loaded = next(iter(DocBin().from_bytes(kept.to_bytes()).get_docs(nlp.vocab)))
    np.testing.assert_array_equal(restore_vectors(loaded).tensor, tensor)
    np.testing.assert_array_equal(loaded[7].vector, tensor[7])


def test_mixes():
    layers = np.random.default_rng(0).normal(size=(3, 4, 5)).astype("f")
    np.testing.assert_allclose(mix_layers(layers, "average"), layers.mean(0), atol=1e-6)
    np.testing.assert_array_equal(mix_layers(layers, "top"), layers[2])
    np.testing.assert_array_equal(mix_layers(layers, 0), layers[0])
    wanted = 0.5 * layers[0] + 2.0 * layers[2]
    np.testing.assert_allclose(mix_layers(layers, [0.5, 0.0, 2.0]), wanted, atol=1e-6)


@pytest.mark.parametrize("mix", ["mean", True, 3, -1, [0.5, 0.5]])
def test_impossible_mixes(mix, make_nlp):
    with pytest.raises(ValueError, match="mix"):
        make_nlp(mix=mix)("a")


def test_blank_vocab_import_has_no_hooks():
    assert "vector" not in spacy.blank("en")("a").user_token_hooks


@pytest.fixture
def cleaned(nlp):
    """A Doc whose tensor `doc_cleaner` has removed, and spaCy's own of the same text."""
    nlp.add_pipe("doc_cleaner", config={"attrs": {"tensor": None}})
    return nlp(TEXT), nlp.make_doc(TEXT)


@pytest.mark.filterwarnings("ignore:.*W00[78].*")
@pytest.mark.parametrize("take", [lambda doc: doc, lambda doc: doc[1:5], lambda doc: doc[1]])
def test_without_tensor_all_is_as_in_spacy(cleaned, take):
    ours, theirs = map(take, cleaned)
    assert ours.has_vector == theirs.has_vector
    np.testing.assert_array_equal(ours.vector, theirs.vector)
    assert ours.vector_norm == theirs.vector_norm
    doc, plain = cleaned
    for other in (
        lambda doc: doc,
        lambda doc: doc[4:5],
        lambda doc: doc[7],
        lambda doc: doc[9],
        lambda doc: doc.vocab["river"],
        lambda doc: doc.vocab["the"],
    ):
        assert ours.similarity(other(doc)) == theirs.similarity(other(plain))
        assert ours.similarity(other(plain)) == theirs.similarity(other(plain))
    assert doc[:0].has_vector == plain[:0].has_vector
    np.testing.assert_array_equal(doc[:0].vector, plain[:0].vector)


def test_a_tensor_that_comes_back_is_read_again(nlp):
    doc = keep_vectors(nlp(TEXT))
    vector, doc.tensor = doc[1].vector, None
    assert doc[1].vector.shape == (nlp.vocab.vectors_length,)
    np.testing.assert_array_equal(restore_vectors(doc)[1].vector, vector)
    doc.tensor = None
    with pytest.raises(ValueError, match="keep_vectors"):
        restore_vectors(doc)


def test_one_of_two_without_tensor(make_nlp):
    nlp = make_nlp()
    nlp.vocab.set_vector("bank", np.ones(7))
    doc, other = nlp(TEXT), nlp(TEXT)
    other.tensor = None
    for one, two in ((doc, other), (other, doc)):
        with pytest.raises(ValueError, match="vectors of (12 and 7|7 and 12) dimensions"):
            one[1].similarity(two[1])


def test_joined_docs_lose_the_hooks(nlp):
    docs = [nlp(TEXT), nlp(""), nlp("Money !")]
    joined = Doc.from_docs(docs)
    assert joined[1].similarity(joined[7]) == 1.0  # of equal words, by spaCy
    restore_vectors(joined)
    assert joined[1].similarity(joined[7]) == docs[0][1].similarity(docs[0][7])
    np.testing.assert_array_equal(joined[11].vector, docs[2][0].vector)
