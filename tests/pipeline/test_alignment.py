"""`align`: a matrix that maps the layers into another model's space, in every use of a pipeline."""

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from spacy.tokens import Doc

from spacy_elmo.weights import read_weights
from spacy_elmo.weights.convert import convert
from spacy_elmo.weights.formats import describe

from helpers.embedded import embed_corpus
from helpers.models import SENTENCES, check_refused, tiny_bilm
from helpers.profiles import few
from helpers.rounding import check_close
from helpers.trained import trained

WIDTH = 12
TEXT = "Maria sat on the bank"
MATRIX = np.random.default_rng(5).normal(0, 1, (WIDTH, WIDTH)).astype("float32")


@given(
    matrix=arrays("float32", (10, 10), elements=st.floats(-1e6, 1e6, width=32)),
    sentences=st.lists(st.sampled_from(SENTENCES), max_size=4),
)
@few
def test_aligned_layers_are_products_with_any_matrix(matrix, sentences):
    plain = tiny_bilm()
    layers, aligned = (
        bilm.embed(sentences)[0] for bilm in (plain, plain.replace(alignment=matrix))
    )
    for ours, theirs in zip(aligned, layers, strict=True):
        exact = theirs.astype("float64") @ matrix.T.astype("float64")
        # The error of a sum of n products in float32: n units of the sum of their sizes.
        bound = 10 * 2**-23 * (np.abs(theirs) @ np.abs(matrix.T).astype("float64"))
        assert (np.abs(ours - exact) <= bound).all()


@pytest.fixture
def matrix(tmp_path):
    np.save(tmp_path / "w.npy", MATRIX)
    return tmp_path / "w.npy"


@pytest.mark.pipelines
@pytest.mark.parametrize("ending", [".npy", ".txt", "mark.txt"])
def test_all_layers_are_aligned(make_nlp, tmp_path, ending):
    path = tmp_path / f"w{ending}"
    np.save(path, MATRIX.astype("float64")) if ending == ".npy" else np.savetxt(path, MATRIX)
    if ending == "mark.txt":
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    layers = make_nlp(store_layers=True)(TEXT)._.elmo
    expected = [[MATRIX.astype("float64") @ vector for vector in layer] for layer in layers]
    nlp = make_nlp(align=str(path), store_layers=True)
    doc = nlp(TEXT)
    np.testing.assert_allclose(doc._.elmo, expected, atol=1e-5)
    np.testing.assert_allclose(doc.tensor, expected[-1], atol=1e-5)
    assert nlp("")._.elmo.shape == (3, 0, WIDTH)


@pytest.mark.pipelines
def test_the_matrix_is_saved_with_the_pipeline(make_nlp, matrix, tmp_path):
    """The file is not needed again, and other weights may come without a matrix."""
    nlp, plain = make_nlp(align=str(matrix)), make_nlp()
    expected = nlp(TEXT).tensor
    nlp.to_disk(tmp_path / "pipeline")
    data = nlp.to_bytes()
    matrix.unlink()
    loaded = spacy.load(tmp_path / "pipeline")
    loaded.to_disk(tmp_path / "again")
    for one in (loaded, spacy.load(tmp_path / "again"), make_nlp().from_bytes(data)):
        check_close(one(TEXT).tensor, expected)
    loaded.from_bytes(plain.to_bytes())
    check_close(loaded(TEXT).tensor, plain(TEXT).tensor)


@pytest.mark.training
@pytest.mark.pipelines
def test_layers_of_another_matrix_are_not_used(make_nlp, matrix, tmp_path):
    """The keys of kept features and stored layers include the matrix."""
    features = {"@feature_caches": "spacy-elmo.disk.v1", "path": str(tmp_path / "f.sqlite")}
    found = []
    for align in (None, str(matrix)):
        nlp = make_nlp(align=align, features=features)
        batch, _ = trained(nlp)
        nlp.get_pipe("elmo").update(batch)
        found.append(batch[0].x._.elmo)
    expected = np.einsum("ij,lnj->lni", MATRIX.astype("float64"), found[0])
    np.testing.assert_allclose(found[1], expected, atol=1e-5)


@pytest.mark.training
@pytest.mark.pipelines
def test_replaced_listeners_keep_the_alignment(make_nlp, matrix, tmp_path):
    nlp = make_nlp(align=str(matrix))
    trained(nlp)
    expected = nlp.get_pipe("tagger").model.get_ref("tok2vec").predict([nlp(TEXT)])[0]
    nlp.replace_listeners("elmo", "tagger", ["model.tok2vec"])
    nlp.to_disk(tmp_path / "pipeline")
    matrix.unlink()
    replaced = spacy.load(tmp_path / "pipeline").get_pipe("tagger").model.get_ref("tok2vec")
    found = replaced.predict([Doc(nlp.vocab, words=TEXT.split())])[0]
    check_close(found, expected)
    bilm = nlp.get_pipe("elmo").bilm
    whole, lower = (model.embed([TEXT.split()])[0][0] for model in (bilm, bilm.first_layers(1)))
    check_close(lower, whole[:2])


@pytest.mark.pipelines
@pytest.mark.corpora
@pytest.mark.conversions
def test_conversions_keep_the_matrix_or_name_its_loss(make_nlp, matrix, tmp_path):
    nlp = make_nlp(align=str(matrix))
    expected = nlp(TEXT).tensor
    nlp.to_disk(tmp_path / "pipeline")
    source = tmp_path / "pipeline" / "elmo" / "model.safetensors"
    for name, lost, tensor in (
        ("x.safetensors", [], expected),
        ("x.hdf5", ["the alignment matrix"], make_nlp()(TEXT).tensor),
    ):
        assert convert(source, tmp_path / name, allow_loss=True)[1] == lost
        layers, _ = read_weights(tmp_path / name).embed([TEXT.split()], "warm")
        check_close(layers[0][-1], tensor)
        assert describe(tmp_path / name)["aligned"] == (not lost)
    (tmp_path / "text.txt").write_text(TEXT + "\n")
    embed_corpus(str(tmp_path / "pipeline"), tmp_path / "text.txt", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as vectors:
        check_close(vectors["0"], expected)


@pytest.mark.pipelines
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("w.npy", np.eye(11), "shape (11, 11). The vectors have width 12, so it must be (12, 12)"),
        ("w.npy", np.full((12, 12), np.inf), "NaN or infinity"),
        ("w.npy", np.array([{}]), "does not contain a readable matrix"),
        ("w.txt", b"1 2\n3\n", "does not contain a readable matrix"),
        ("w.txt", b"0\n" * 50, "shape (13, 1)"),
        ("w.pth", b"", "numpy.save"),
        ("w.txt", None, "w.txt does not contain a readable matrix"),
    ],
)
def test_bad_matrices_are_refused(make_nlp, tmp_path, name, content, message):
    path = tmp_path / name
    if isinstance(content, np.ndarray):
        np.save(path, content)
    elif content is not None:
        path.write_bytes(content)
    nlp = make_nlp(align=str(path))
    assert "\n" not in check_refused(lambda: nlp(TEXT), message)


@pytest.mark.pipelines
def test_a_damaged_matrix_in_a_file_of_weights_is_refused(make_nlp, matrix, tmp_path):
    make_nlp(align=str(matrix)).to_disk(tmp_path / "pipeline")
    file = tmp_path / "pipeline" / "elmo" / "model.safetensors"
    with safe_open(file, "pt") as opened:
        metadata = opened.metadata()
    save_file({**load_file(file), "alignment": np.zeros((3, 3), dtype="float32")}, file, metadata)
    check_refused(lambda: read_weights(file), "alignment", "(3, 3)", "(12, 12)")
