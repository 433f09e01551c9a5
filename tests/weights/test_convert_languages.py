"""Models with other token encoders, and archives: what `convert` and `info` make of them."""

import shutil
import zipfile

import h5py
import pytest
import spacy

from spacy_elmo.language_model.frozen import read_language_model
from spacy_elmo.weights import read_weights
from spacy_elmo.weights.convert import convert
from spacy_elmo.weights.formats import describe
from spacy_elmo.weights.named import NAMED

from helpers import reference, reference_manylangs
from helpers.conversions import WORDS, assert_same_vectors, write_source
from helpers.models import tiny_options

pytestmark = pytest.mark.pipelines

VARIANTS = [{}, {"word_dim": 0}, {"char_dim": 0}, {"n_layers": 1, "activation": "tanh"}]


def write_manylangs(folder, **changes):
    sizes = reference_manylangs.sizes_of(**changes)
    tensors = reference_manylangs.random_tensors(sizes, 0)
    return reference_manylangs.write_folder(folder, sizes, tensors)


def zipped(folder, target):
    with zipfile.ZipFile(target, "w") as archive:
        for path in folder.iterdir():
            archive.write(path, path.name)
    return target


@pytest.mark.parametrize("changes", VARIANTS)
@pytest.mark.parametrize("packed", [False, True])
def test_manylangs_to_what_has_room_and_back(tmp_path, changes, packed):
    folder = write_manylangs(tmp_path / "fi.model", **changes)
    source = zipped(folder, tmp_path / "fi.zip") if packed else folder
    one, two, three = (tmp_path / name for name in ("one", "two.safetensors", "three"))
    for start, target, lang in ((source, one, "fi"), (one, two, None), (two, three, None)):
        _, lost = convert(start, target, lang=lang)
        assert not lost
        assert_same_vectors(target, folder)
    nlp = spacy.load(three)
    assert nlp.lang == "fi"
    assert nlp("The cat")[0].vector.shape == (read_weights(folder).config.width,)
    told = describe(source)
    assert (told["format"], told["checksum"]) == ("manylangs", describe(two)["checksum"])
    names = [source.name] if packed else sorted(path.name for path in folder.iterdir())
    assert [file["name"] for file in told["files"]] == names


@pytest.mark.parametrize("force", [False, True])
def test_manylangs_has_no_room_in_hdf5(tmp_path, force):
    folder = write_manylangs(tmp_path / "fi.model")
    with pytest.raises(ValueError, match="cannot store the token encoder 'manylangs'"):
        convert(folder, tmp_path / "out" / "weights.hdf5", allow_loss=True, force=force)
    assert not (tmp_path / "out").exists()


def test_named_manylangs(tmp_path, monkeypatch):
    monkeypatch.setenv("SPACY_ELMO_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    folder = write_manylangs(tmp_path / "fi.model")
    model = NAMED["manylangs-fi"]
    model.path.parent.mkdir(parents=True)
    zipped(folder, model.path)
    convert("manylangs-fi", tmp_path / "fi")
    assert_same_vectors(tmp_path / "fi", folder)
    assert spacy.load(tmp_path / "fi").lang == "fi"
    assert read_weights(tmp_path / "fi").provenance["licence"] == "MIT"


def word_model(folder):
    """A model of bilm-tf that reads words alone."""
    options = tiny_options()
    del options["char_cnn"]
    data = reference.random_datasets(options, n_words=len(WORDS))
    return reference.write_hdf5(folder, options, data, WORDS)


def test_models_of_words(tmp_path):
    source = word_model(tmp_path / "source")
    previous = source
    for name in ("a.safetensors", "weights.hdf5", "folder", "b.safetensors"):
        _, lost = convert(previous, tmp_path / name, lang="en")
        assert not lost
        previous = tmp_path / name
        assert_same_vectors(previous, source)
    words = (tmp_path / "vocab.txt").read_text("utf8").split()
    assert words == (source.parent / "vocab.txt").read_text("utf8").split() == WORDS


def test_words_that_are_read_and_words_that_are_predicted(tmp_path):
    """One vocab.txt can hold them if they are the same."""
    source = word_model(tmp_path / "source")
    with h5py.File(source, "a") as file:
        file["softmax/W"] = file["embedding"][()]
        file["softmax/b"] = file["embedding"][:, 0]
    _, lost = convert(source, tmp_path / "same" / "weights.hdf5")
    assert not lost
    convert(source, tmp_path / "p", lang="en")
    assert read_language_model(tmp_path / "p").vocabulary.words == WORDS
    vocabulary = tmp_path / "p" / "vocab.txt"
    vocabulary.write_text("\n".join([*WORDS[:3], *WORDS[:2:-1]]) + "\n", "utf8")
    with pytest.raises(ValueError, match="words that the model reads differ"):
        convert(tmp_path / "p", tmp_path / "other" / "weights.hdf5")
    assert not (tmp_path / "other").exists()
    convert(tmp_path / "p", tmp_path / "other" / "weights.hdf5", keep_softmax=False)
    assert_same_vectors(tmp_path / "other" / "weights.hdf5", source)


def test_archive_of_allennlp_with_its_softmax(tmp_path):
    source = write_source(tmp_path / "x" / "model")
    convert(source, tmp_path / "y" / "weights.hdf5")
    archive = zipped(tmp_path / "y", tmp_path / "y.zip")
    shutil.rmtree(tmp_path / "y")
    _, lost = convert(archive, tmp_path / "back")
    assert not lost
    assert_same_vectors(tmp_path / "back", source)
    assert read_language_model(tmp_path / "back").vocabulary.words == WORDS
    assert spacy.load(tmp_path / "back").lang == "de"
    told = describe(archive)
    assert (told["format"], told["softmax"]) == ("allennlp", {"kind": "full", "words": 6})
    convert(archive, tmp_path / "a.safetensors")
    assert read_language_model(tmp_path / "a.safetensors").vocabulary.words == WORDS
