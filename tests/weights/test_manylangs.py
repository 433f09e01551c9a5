"""ELMoForManyLangs' folders, against its own output and against numpy."""

import json
import shutil
import zipfile

import numpy as np
import pytest
import torch

from spacy_elmo.weights import manylangs, read_weights
from spacy_elmo.weights.sizes import read_sizes

from helpers import reference_manylangs as reference
from helpers.golden import MANYLANGS, read_manylangs
from helpers.models import check_layers, check_refused

SENTENCES = [
    ["The", "cat", "sat", "."],
    [],
    ["the"],
    ["漢", "é😀", "unknown", "t" * 10, "t" * 11, "cat" * 9, "", "\u3000", "\t"],
    ["<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "a", "lone\ud800surrogate"],
]
VARIANTS = [
    {},
    {"word_dim": 0},
    {"char_dim": 0},
    {"char_dim": 0, "word_dim": 6},  # as wide as what it is projected to
    {"filters": [[2, 1]], "word_dim": 5, "n_highway": 0},  # the same, with characters
    {"n_layers": 1, "activation": "tanh", "n_highway": 1},
    {"n_layers": 3, "cell_clip": None, "proj_clip": 0, "max_characters_per_token": 7},
    {"cell_clip": 0.7, "proj_clip": 0.5, "filters": [[1, 3], [12, 4]]},
    {"dim": 6, "proj_clip": 0.5},  # a projection that is square
]


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "some.model")


def write(folder, seed=0, old_pickles=False, **changes):
    sizes = reference.sizes_of(**changes)
    tensors = reference.random_tensors(sizes, seed)
    return reference.write_folder(folder, sizes, tensors, old_pickles=old_pickles)


def fails(path, *parts):
    return check_refused(lambda: read_weights(path), *parts)


# Numbers


def test_fixture():
    """All layers, as the original program gave them."""
    sentences, expected = read_manylangs()
    bilm = read_weights(MANYLANGS)
    assert sum(map(len, sentences)) == 20
    check_layers(bilm.embed(sentences)[0], expected, atol=1e-6)
    trained = bilm.thaw().embed(sentences)[0]
    check_layers([layers.detach() for layers in trained], expected, atol=1e-6)


@pytest.mark.parametrize("changes", VARIANTS)
def test_against_numpy(tmp_path, changes):
    sizes = reference.sizes_of(**changes)
    tensors = reference.random_tensors(sizes, seed=3)
    bilm = read_weights(reference.write_folder(tmp_path / "m", sizes, tensors))
    expected = reference.layers(sizes, tensors, SENTENCES)
    check_layers(bilm.embed(SENTENCES)[0], expected)
    trained = bilm.thaw().embed(SENTENCES)[0]
    check_layers([layers.detach() for layers in trained], expected)


def test_clips_act_in_that_comparison():
    sizes = reference.sizes_of()
    tensors = reference.random_tensors(sizes, seed=3)
    clipped = reference.layers(sizes, tensors, SENTENCES)
    for name in ("cell_clip", "proj_clip"):
        free = reference.layers(reference.sizes_of(**{name: None}), tensors, SENTENCES)
        assert max(np.abs(a - b).max() for a, b in zip(clipped, free) if a.size) > 1e-3


def test_two_white_space_tokens(folder):
    """The last one is what the original looks up."""
    lines = [f"{entry}\t{i}" for i, entry in enumerate(reference.CHARACTERS)]
    lines[4] = "\u2003\t4"  # in front of U+3000, and stripped as well
    (folder / "char.dic").write_text("\n".join(lines), "utf8")
    vocabulary = read_weights(folder).vocabularies.characters
    assert vocabulary["\u3000"] == reference.CHARACTERS.index("\u3000")
    assert vocabulary.strings[4] is None
    assert "d" not in vocabulary


def test_windows_line_ends_and_no_last_line_end(folder):
    text = (folder / "char.dic").read_text("utf8")
    (folder / "char.dic").write_bytes(text.replace("\n", "\r\n").removesuffix("\r\n").encode())
    assert len(read_weights(folder).vocabularies.characters) == 22


def test_other_types_and_pickles_of_old_pytorch(tmp_path):
    expected = read_weights(write(tmp_path / "new")).embed(SENTENCES)[0]
    old = read_weights(write(tmp_path / "old", old_pickles=True))
    check_layers(old.embed(SENTENCES)[0], expected, atol=0)
    place = tmp_path / "old" / "encoder.pkl"
    state = torch.load(place, weights_only=True)
    torch.save({name: torch.nn.Parameter(value.double()) for name, value in state.items()}, place)
    got = read_weights(tmp_path / "old")
    check_layers(got.embed(SENTENCES)[0], expected, atol=0)
    assert {str(weight.dtype) for weight in got.arrays().values()} == {"float32"}


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_lower_precisions(folder, precision):
    bilm = read_weights(folder)
    lower = bilm.replace(precision=precision)
    exact, low = (np.hstack(each.embed(SENTENCES)[0]).mean(axis=0) for each in (bilm, lower))
    norms = np.linalg.norm(exact, axis=1) * np.linalg.norm(low, axis=1)
    assert ((exact * low).sum(axis=1) / norms).min() > 0.98
    assert (exact != low).any()


# Where things are


def test_every_way_to_name_a_folder(folder, tmp_path, monkeypatch):
    expected = read_weights(folder).token_vectors(["cat"])
    for place in (str(folder), folder / "encoder.pkl", folder / "token_embedder.pkl"):
        np.testing.assert_array_equal(read_weights(place).token_vectors(["cat"]), expected)
    monkeypatch.chdir(folder)
    for place in (".", "encoder.pkl"):
        np.testing.assert_array_equal(read_weights(place).token_vectors(["cat"]), expected)


def config_path(folder, path):
    (folder / "config.json").write_text(json.dumps({"config_path": path}), "utf8")


@pytest.mark.parametrize(
    ("stands", "named"),
    [
        ("sizes.json", "C:\\models\\sizes.json"),
        ("configs/sizes.json", "configs/sizes.json"),
        ("configs/sizes.json", "/somebody/configs/sizes.json"),
        ("sizes.json", "../../nowhere/sizes.json"),
    ],
)
def test_sizes_named_by_a_path(folder, stands, named):
    (folder / "configs").mkdir()
    (folder / "sizes.json").rename(folder / stands)
    config_path(folder, named)
    assert read_weights(folder).config.lstm_dim == 20


@pytest.mark.parametrize("way", ["../mine.json", "configs/../../mine.json", "{}/mine.json"])
def test_sizes_outside_of_the_folder_are_not_opened(folder, tmp_path, way):
    (folder / "configs").mkdir()
    (folder / "sizes.json").rename(tmp_path / "mine.json")
    config_path(folder, way.format(tmp_path))
    fails(folder, "published sizes", "is not in", "copy it there")
    shutil.copy(tmp_path / "mine.json", folder)
    assert read_weights(folder).config.lstm_dim == 20


def test_published_sizes_take_the_place_of_a_missing_file(folder, monkeypatch):
    (folder / "sizes.json").unlink()
    message = fails(folder, "published sizes", "/home/somebody/models/sizes.json", "is not in")
    assert "(2048, 4096)" in message or "token_embedder.pkl" in message
    sizes = read_sizes(reference.sizes_of(), manylangs.PLACES)
    monkeypatch.setattr(manylangs, "PUBLIC_SIZES", sizes)
    assert read_weights(folder).config.lstm_dim == 20


def test_published_sizes():
    """FORMATS.md, section 2."""
    sizes = manylangs.PUBLIC_SIZES
    filters = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]
    assert (sizes["lstm_dim"], sizes["projection_dim"], sizes["filters"]) == (4096, 512, filters)


@pytest.mark.parametrize("inside", ["", "144/"])
@pytest.mark.parametrize("packing", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zip_archive(folder, tmp_path, inside, packing):
    with zipfile.ZipFile(tmp_path / "144.zip", "w", packing) as archive:
        for file in folder.iterdir():
            archive.write(file, inside + file.name)
        if inside:
            archive.writestr("__MACOSX/x", "")
    before = sorted(tmp_path.iterdir())
    packed = read_weights(tmp_path / "144.zip")
    expected = read_weights(folder).embed(SENTENCES)[0]
    check_layers(packed.embed(SENTENCES)[0], expected, atol=0)
    assert sorted(tmp_path.iterdir()) == before


def test_checksum_knows_the_vocabulary(folder):
    before = read_weights(folder).checksum()
    assert read_weights(folder).checksum() == before
    text = (folder / "word.dic").read_text("utf8")
    swapped = text.replace("The\t4", "cat\t4").replace("cat\t6", "The\t6")
    (folder / "word.dic").write_text(swapped, "utf8")
    assert read_weights(folder).checksum() != before


# Projections


def without_projections(tensors, names=("state_projection",)):
    embedder, stacks = tensors
    return embedder, {k: v for k, v in stacks.items() if not any(name in k for name in names)}


def test_no_projections(tmp_path):
    """P = D: they may be missing. Then nothing is clipped in their place."""
    sizes = reference.sizes_of(dim=6, proj_clip=0.2)
    tensors = without_projections(reference.random_tensors(sizes, seed=3))
    bilm = read_weights(reference.write_folder(tmp_path / "m", sizes, tensors))
    expected = reference.layers(sizes, tensors, SENTENCES)
    check_layers(bilm.embed(SENTENCES)[0], expected)
    assert not bilm.config.square_projection


def test_some_projections(tmp_path):
    sizes = reference.sizes_of(dim=6)
    for names, named in (
        (
            ["backward_layer_1.state_projection"],
            "'backward_layer_1.state_projection.weight' is mis",
        ),
        (["forward_layer_0.state_projection"], "'forward_layer_1.state_projection.weight'"),
    ):
        tensors = without_projections(reference.random_tensors(sizes), names)
        fails(reference.write_folder(tmp_path / names[0], sizes, tensors), named)


def put_mark_before(path):
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())


@pytest.mark.parametrize("name", ["config.json", "sizes.json", "char.dic", "word.dic"])
def test_byte_order_mark(folder, name):
    before = read_weights(folder)
    put_mark_before(folder / name)
    assert read_weights(folder).checksum() == before.checksum()


def test_byte_order_mark_that_is_a_character_of_the_model(folder):
    lines = (folder / "char.dic").read_text("utf8").replace("h\t", "\ufeff\t").splitlines()
    lines.sort(key=lambda line: line[0] != "\ufeff")
    assert lines[0][:2] == "\ufeff\t"
    (folder / "char.dic").write_text("".join(f"{line}\n" for line in lines), "utf8")
    assert "\ufeff" in read_weights(folder).vocabularies.characters
