import json
import shutil
import struct

import h5py
import numpy as np
import pytest
import spacy
import srsly
import torch
from safetensors.torch import load_file

from spacy_elmo.bilm.softmax import AdaptiveSoftmax, LanguageModelSoftmax
from spacy_elmo.content import read_content
from spacy_elmo.conversion import DTYPES, LossError, convert
from spacy_elmo.pretraining.language_model import LanguageModel, read_language_model
from spacy_elmo.pretraining.model_folder import save_model
from spacy_elmo.pretraining.vocabulary import Vocabulary
from spacy_elmo.weights import NAMED, allennlp, read_weights, safetensors_file
from spacy_elmo.weights.named import NamedModel, RemoteFile

import reference
from components import ner
from models import ALLENNLP, SENTENCES, tiny_bilm, tiny_options

WORDS = ["<S>", "</S>", "<UNK>", "the", "naïve", "日本"]
PROVENANCE = {"tokens": 7, "corpus": {"sha256": "ab", "train": "/é"}, "perplexity": {"mean": 1.5}}
TARGETS = {"safetensors": "a.safetensors", "allennlp": "weights.hdf5", "pipeline": "a"}


def make_model(seed=0, kind=LanguageModelSoftmax, **changes):
    torch.manual_seed(seed)
    softmax = kind(n_words=len(WORDS), width=5)
    for parameter in softmax.parameters():
        torch.nn.init.normal_(parameter)
    return LanguageModel(tiny_bilm(seed, **changes), softmax, Vocabulary(WORDS))


@pytest.fixture
def source(tmp_path):
    """What `pretrain` writes."""
    folder = tmp_path / "source" / "model-best"
    folder.parent.mkdir()
    save_model(make_model(), folder, lang="de", provenance=PROVENANCE)
    return folder


def content_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def assert_same_vectors(path, expected):
    """Bit by bit: of every layer, and the state."""
    layers, state = read_weights(path).embed(SENTENCES)
    wanted, wanted_state = read_weights(expected).embed(SENTENCES)
    for got, want in zip([*layers, *vars(state).values()], [*wanted, *vars(wanted_state).values()]):
        assert got.numpy().tobytes() == want.numpy().tobytes()


@pytest.mark.parametrize("first", TARGETS)
@pytest.mark.parametrize("second", TARGETS)
def test_every_format_and_back(tmp_path, source, first, second):
    one, two = tmp_path / "one" / TARGETS[first], tmp_path / "two" / TARGETS[second]
    keep = "safetensors" not in (first, second)
    for start, target in ((source, one), (one, two), (two, tmp_path / "back")):
        _, lost = convert(start, target, keep_softmax=keep)
        assert not lost
        assert_same_vectors(target, source)
    assert read_weights(tmp_path / "back").provenance == {**PROVENANCE, "lang": "de"}
    nlp = spacy.load(tmp_path / "back")
    assert (nlp.lang, nlp.pipe_names, nlp.meta["performance"]) == ("de", ["elmo"], {"mean": 1.5})
    files = [path.name for path in (tmp_path / "one").iterdir()]
    if first == "allennlp":
        assert sorted(files) == ["options.json", *(["vocab.txt"] * keep), "weights.hdf5"]
    else:
        assert files == [TARGETS[first]]
    if keep:
        back, model = read_language_model(tmp_path / "back"), read_language_model(source)
        assert back.vocabulary.words == WORDS
        for name, weight in model.softmax.state_dict().items():
            assert torch.equal(weight, back.softmax.state_dict()[name])


@pytest.mark.parametrize(
    "changes",
    [
        {"n_layers": 1, "cell_clip": None},
        {"filters": [[1, 2], [3, 3]], "n_highway": 0, "activation": "tanh"},
        {"dim": 6, "projection_dim": 6, "use_skip_connections": False},
    ],
)
def test_every_kind_of_model(tmp_path, changes):
    safetensors_file.write(tiny_bilm(**changes), tmp_path / "x.safetensors")
    previous = tmp_path / "x.safetensors"
    for target in ("weights.hdf5", "folder", "y.safetensors"):
        convert(previous, tmp_path / target, lang="en")
        assert_same_vectors(tmp_path / target, tmp_path / "x.safetensors")
        previous = tmp_path / target


@pytest.mark.skipif(not ALLENNLP.is_dir(), reason="the fixtures are not beside this repository")
def test_fixture_of_allennlp(tmp_path):
    source = ALLENNLP / "lm_weights.hdf5"
    convert(source, tmp_path / "a.safetensors", lang="en")
    convert(tmp_path / "a.safetensors", tmp_path / "weights.hdf5")
    with h5py.File(source) as theirs, h5py.File(tmp_path / "weights.hdf5") as ours:
        names: list[str] = []
        theirs.visititems(lambda name, item: names.append(name) if hasattr(item, "shape") else None)
        assert len(names) > 10
        for name in names:
            assert ours[name][()].tobytes() == theirs[name][()].tobytes(), name
    assert read_content(tmp_path / "weights.hdf5").lang == "en"


def test_softmax_in_hdf5_is_bilm_tfs(tmp_path, source):
    convert(source, tmp_path / "elmo_tiny_weights.hdf5")
    model = make_model()
    with h5py.File(tmp_path / "elmo_tiny_weights.hdf5") as file:
        for name, values in (("W", model.softmax.weight), ("b", model.softmax.bias)):
            assert file[f"softmax/{name}"].dtype == np.float32
            np.testing.assert_array_equal(file[f"softmax/{name}"], values.detach())
    vocabulary = (tmp_path / "elmo_tiny_vocab.txt").read_bytes()
    assert vocabulary == "".join(f"{word}\n" for word in WORDS).encode()
    options = json.loads((tmp_path / "elmo_tiny_options.json").read_text())
    assert options["lstm"] == tiny_options()["lstm"]
    shutil.rmtree(source)
    convert(tmp_path / "elmo_tiny_", tmp_path / "back")  # by the beginning of the names
    assert read_language_model(tmp_path / "back").vocabulary.words == WORDS


# What a type does to numbers, by other means than PyTorch's


def bfloat16(values):
    """Round to the nearest, ties to even, on the bits (IEEE 754)."""
    bits = values.astype("float32").view("uint32").astype("uint64")
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return (rounded << 16).astype("uint32").view("float32")


@pytest.mark.parametrize(
    ("dtype", "kind", "rounded"),
    [
        ("float16", "F16", lambda values: values.astype("float16").astype("float32")),
        ("bfloat16", "BF16", bfloat16),
    ],
)
@pytest.mark.parametrize("target", ["a.safetensors", "a"])
def test_half_precision(tmp_path, source, dtype, kind, rounded, target):
    target = tmp_path / target
    _, lost = convert(source, target, dtype=dtype, keep_softmax=False, allow_loss=True)
    file = target if target.is_file() else target / "elmo" / "model.safetensors"
    data = file.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    assert {entry["dtype"] for name, entry in header.items() if name != "__metadata__"} == {kind}
    got, expected = read_weights(target).state_dict(), make_model().bilm.state_dict()
    n_changed, largest = 0, 0.0
    for name, values in expected.items():
        assert got[name].dtype == torch.float32
        want = rounded(values.numpy())
        np.testing.assert_array_equal(got[name].numpy(), want)
        n_changed += int((want != values.numpy()).sum())
        largest = max(largest, float(np.abs(want - values.numpy()).max()))
    assert lost == [f"precision ({n_changed:,} weights change in {dtype}, by up to {largest:.2g})"]
    # What is rounded already loses nothing more.
    assert convert(target, tmp_path / "again.safetensors", dtype=dtype)[1] == []
    assert convert(target, tmp_path / "weights.hdf5")[1] == []
    assert_same_vectors(tmp_path / "weights.hdf5", target)


def test_weights_too_large_for_float16(tmp_path):
    bilm = tiny_bilm()
    bilm.stacks[0][0].bias.data[0] = 7e4
    safetensors_file.write(bilm, tmp_path / "a.safetensors")
    for allow in (True, False):
        with pytest.raises(ValueError, match=r"stacks.0.0.bias|precision .*inf"):
            convert(
                tmp_path / "a.safetensors",
                tmp_path / "b.safetensors",
                dtype="float16",
                allow_loss=allow,
            )
    assert not (tmp_path / "b.safetensors").exists()


def test_half_precision_is_not_for_allennlp(tmp_path, source):
    with pytest.raises(ValueError, match="read float32 alone"):
        convert(source, tmp_path / "weights.hdf5", dtype="float16", allow_loss=True)


# What would be lost


def stops(message, source, target, **settings):
    with pytest.raises(LossError, match=message):
        convert(source, target, **settings)
    assert not target.exists()
    _, lost = convert(source, target, **settings, allow_loss=True)
    assert len(lost) == 1
    return lost[0]


def test_softmax_has_no_room_in_safetensors(tmp_path, source):
    stops("the softmax and its vocabulary of 6 words", source, tmp_path / "a.safetensors")
    _, lost = convert(source, tmp_path / "b.safetensors", keep_softmax=False)
    assert not lost


def test_adaptive_softmax_has_no_room_in_hdf5(tmp_path):
    save_model(make_model(kind=AdaptiveSoftmax), tmp_path / "x", lang="en", provenance={})
    stops("the adaptive softmax", tmp_path / "x", tmp_path / "weights.hdf5")
    assert not (tmp_path / "vocab.txt").exists()
    convert(tmp_path / "x", tmp_path / "y")
    same, model = read_language_model(tmp_path / "y"), read_language_model(tmp_path / "x")
    assert str(same.softmax.state_dict()) == str(model.softmax.state_dict())


def test_softmax_without_vocabulary(tmp_path, source):
    convert(source, tmp_path / "weights.hdf5")
    (tmp_path / "vocab.txt").unlink()
    stops("softmax, which has no vocab.txt", tmp_path / "weights.hdf5", tmp_path / "a")


def test_softmax_that_does_not_fit(tmp_path, source):
    convert(source, tmp_path / "weights.hdf5")
    (tmp_path / "vocab.txt").write_text("<S>\n</S>\n<UNK>\n")
    with pytest.raises(ValueError, match=r"vocab.txt: 3 words, but .*weights.hdf5"):
        convert(tmp_path / "weights.hdf5", tmp_path / "a")
    with h5py.File(tmp_path / "weights.hdf5", "a") as file:
        del file["softmax/b"]
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS), "utf8")
    with pytest.raises(ValueError, match="'softmax/b' is missing"):
        convert(tmp_path / "weights.hdf5", tmp_path / "a")


def test_datasets_that_nobody_knows(tmp_path):
    datasets = {**reference.random_datasets(tiny_options()), "notes/x": np.zeros(2)}
    source = reference.write_hdf5(tmp_path, tiny_options(), datasets)
    stops(r"no part of a biLM \(notes/x\)", source, tmp_path / "a.safetensors")


def test_other_components_settings_and_names(tmp_path, tiny_weights):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"weights": str(tiny_weights), "mix": "top", "cache": 5})
    nlp.to_disk(tmp_path / "settings")
    stops(
        r"settings of the pipe 'elmo' \(mix, cache\)",
        tmp_path / "settings",
        tmp_path / "a.safetensors",
    )
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", name="lm", config={"weights": str(tiny_weights)})
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("ner", config=ner({"@architectures": "spacy.HashEmbedCNN.v2", **CNN}))
    nlp.to_disk(tmp_path / "others")
    stops(
        r"the other components \(sentencizer, ner\)",
        tmp_path / "others",
        tmp_path / "b.safetensors",
    )
    nlp = spacy.blank("en", meta={"name": "mine", "license": "MIT"})
    nlp.add_pipe("elmo", config={"weights": str(tiny_weights)})
    nlp.to_disk(tmp_path / "named")
    stops(r"meta.json \(name, license\)", tmp_path / "named", tmp_path / "c")
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"weights": str(tiny_weights)})
    nlp.vocab.set_vector("bank", np.ones(3, dtype="float32"))
    nlp.to_disk(tmp_path / "vectors")
    stops("static vectors", tmp_path / "vectors", tmp_path / "d")
    for name in ("a.safetensors", "b.safetensors", "c", "d"):
        assert_same_vectors(tmp_path / name, tiny_weights)


CNN = {
    "width": 8,
    "depth": 1,
    "embed_size": 50,
    "window_size": 1,
    "maxout_pieces": 2,
    "subword_features": False,
    "pretrained_vectors": None,
}


@pytest.mark.parametrize("content", ["{", "[]", "3", '{"vectors": 3}'])
def test_broken_meta(tmp_path, source, content):
    (source / "meta.json").write_text(content)
    with pytest.raises(ValueError, match=r"meta.json is no meta.json"):
        convert(source, tmp_path / "weights.hdf5")


def test_no_other_component_is_loaded(tmp_path, tiny_weights):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"weights": str(tiny_weights)})
    nlp.add_pipe("ner", config=ner({"@architectures": "spacy.HashEmbedCNN.v2", **CNN}))
    nlp.to_disk(tmp_path / "p")
    (tmp_path / "p" / "ner" / "model").write_bytes(b"broken")
    with pytest.raises(Exception, match=r".+"):
        spacy.load(tmp_path / "p")
    convert(tmp_path / "p", tmp_path / "a.safetensors", allow_loss=True)
    assert_same_vectors(tmp_path / "a.safetensors", tiny_weights)


# Languages and provenance


def test_a_pipeline_needs_a_language(tmp_path, tiny_weights):
    with pytest.raises(ValueError, match="--lang"):
        convert(tiny_weights, tmp_path / "a")
    convert(tiny_weights, tmp_path / "a", lang="fi")
    assert spacy.load(tmp_path / "a").lang == "fi"
    convert(tmp_path / "a", tmp_path / "b", lang="sv")
    assert spacy.load(tmp_path / "b").lang == "sv"


def test_named_model_knows_where_it_is_from(tmp_path, tiny_weights, monkeypatch):
    monkeypatch.setenv("SPACY_ELMO_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    url = "https://example.org/weights.hdf5"
    files = tuple(RemoteFile(url.replace("weights.hdf5", n)) for n in ("options.json",)) + (
        RemoteFile(url),
    )
    model = NamedModel("tiny", "allennlp", "fi", "CC0-1.0", files)
    monkeypatch.setitem(NAMED, "tiny", model)
    shutil.copytree(tiny_weights.parent, model.path.parent)
    convert("tiny", tmp_path / "a")
    provenance = read_weights(tmp_path / "a").provenance
    assert (provenance["name"], provenance["licence"]) == ("tiny", "CC0-1.0")
    assert provenance["urls"][-1] == url
    assert spacy.load(tmp_path / "a").lang == "fi"


def test_provenance_is_patched(tmp_path, source):
    patch = {"commit": "c0ffee", "corpus": {"train": None, "name": "x"}, "tokens": None}
    for target in ("a.safetensors", "weights.hdf5", "a"):
        convert(source, tmp_path / target, keep_softmax=False, provenance=patch)
        assert read_content(tmp_path / target).bilm.provenance == {
            "corpus": {"sha256": "ab", "name": "x"},
            "perplexity": {"mean": 1.5},
            "commit": "c0ffee",
            "lang": "de",
        }


def test_long_provenance_in_hdf5(tmp_path, source):
    text = "é" * 100_000
    convert(source, tmp_path / "weights.hdf5", provenance={"attribution": text})
    assert read_content(tmp_path / "weights.hdf5").bilm.provenance["attribution"] == text


# What is there already


@pytest.mark.parametrize("format", TARGETS)
def test_nothing_is_overwritten_unasked(tmp_path, source, format):
    target = tmp_path / "out" / TARGETS[format]
    safetensors_file.write(tiny_bilm(9), tmp_path / "other.safetensors")
    convert(tmp_path / "other.safetensors", target, lang="en")
    before = content_of(tmp_path / "out")
    with pytest.raises(ValueError, match="exists already.*--force"):
        convert(source, target, keep_softmax=False)
    assert content_of(tmp_path / "out") == before
    convert(source, target, keep_softmax=False, force=True)
    assert_same_vectors(target, source)


@pytest.mark.parametrize("name", ["options.json", "vocab.txt"])
def test_files_beside_hdf5_are_not_overwritten_either(tmp_path, source, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(ValueError, match=f"{name} exists already"):
        convert(source, tmp_path / "weights.hdf5")
    assert (tmp_path / name).read_text() == "mine"
    assert not (tmp_path / "weights.hdf5").exists()
    convert(source, tmp_path / "elmo_x_weights.hdf5")
    assert (tmp_path / name).read_text() == "mine"


def test_a_folder_that_is_no_pipeline_is_never_replaced(tmp_path, source):
    (tmp_path / "home").mkdir()
    convert(source, tmp_path / "home")  # empty
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "love.txt").touch()
    with pytest.raises(ValueError, match="something else than a pipeline"):
        convert(source, tmp_path / "letters", force=True)
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="is a file"):
        convert(source, tmp_path / "file", force=True)
    (tmp_path / "a.safetensors").mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        convert(source, tmp_path / "a.safetensors", force=True)


def test_in_place(tmp_path, source):
    before = read_weights(source)
    convert(source, source, dtype="bfloat16", allow_loss=True, force=True)
    file = source / "elmo" / "model.safetensors"
    assert {weight.dtype for weight in load_file(file).values()} == {torch.bfloat16}
    for name, weight in before.state_dict().items():
        want = torch.from_numpy(bfloat16(weight.numpy()))
        assert torch.equal(read_weights(source).state_dict()[name], want)
    assert read_language_model(source).vocabulary.words == WORDS


@pytest.mark.parametrize("format", TARGETS)
def test_what_fails_leaves_nothing(tmp_path, source, format, monkeypatch):
    """Neither a half of the new, nor a change of the old."""
    target = tmp_path / "out" / TARGETS[format]
    safetensors_file.write(tiny_bilm(9), tmp_path / "other.safetensors")
    convert(tmp_path / "other.safetensors", target, lang="en")
    before = content_of(tmp_path / "out")

    def fail(*_, **__):
        raise OSError("disk full")

    place = {
        "safetensors": (safetensors_file.Path, "write_bytes"),
        "allennlp": (Vocabulary, "to_disk"),
        "pipeline": (Vocabulary, "to_disk"),
    }[format]
    monkeypatch.setattr(*place, fail)
    with pytest.raises(OSError, match="disk full"):
        convert(source, target, keep_softmax=format != "safetensors", force=True)
    assert content_of(tmp_path / "out") == before
    assert len(list((tmp_path / "out").iterdir())) == (2 if format == "allennlp" else 1)


# Names that say no format


@pytest.mark.parametrize(
    ("target", "format", "message"),
    [
        ("a.bin", None, "no format of files ends in '.bin'"),
        ("a.bin", "safetensors", "ends in .safetensors"),
        ("a.safetensors", "allennlp", "ends in .hdf5 or .h5"),
        ("a", "manylangs", "not be written yet"),
        ("a", "pickle", "must be one of safetensors, allennlp, pipeline, manylangs"),
    ],
)
def test_formats_that_cannot_be(tmp_path, source, target, format, message):
    with pytest.raises(ValueError, match=message):
        convert(source, tmp_path / target, format=format)
    assert [path.name for path in tmp_path.iterdir()] == ["source"]


def test_folders_with_dots(tmp_path, source):
    convert(source, tmp_path / "en_small-1.0.2")
    convert(source, tmp_path / "my.model", format="pipeline")
    for name in ("en_small-1.0.2", "my.model"):
        assert_same_vectors(tmp_path / name, source)


def test_unknown_dtype(tmp_path, source):
    assert list(DTYPES) == ["float32", "float16", "bfloat16"]
    with pytest.raises(ValueError, match="must be one of float32, float16, bfloat16"):
        convert(source, tmp_path / "a", dtype="int8")


def test_provenance_that_is_no_object(tmp_path):
    bilm = tiny_bilm()
    bilm.provenance = ["x"]  # type: ignore[assignment]
    safetensors_file.write(bilm, tmp_path / "a.safetensors")
    with pytest.raises(ValueError, match="provenance is no JSON object"):
        read_content(tmp_path / "a.safetensors")
    allennlp.write(tiny_bilm(), tmp_path / "x")
    with h5py.File(tmp_path / "x" / "weights.hdf5", "a") as file:
        file.attrs["spacy_elmo_provenance"] = srsly.json_dumps(["x"])
    with pytest.raises(ValueError, match="provenance is no JSON object"):
        read_content(tmp_path / "x")
