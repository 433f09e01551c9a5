"""Malformed files of every format: one line names the file and the error."""

import json
import shutil
import struct
import zlib

import h5py
import numpy as np
import pytest
import torch
from safetensors.torch import load, save

from spacy_elmo.weights import read_weights, safetensors_file
from spacy_elmo.weights.convert import convert
from spacy_elmo.weights.formats import read_bundle

from helpers import conversions, reference, reference_manylangs
from helpers.gzipped import gzipped
from helpers.models import check_refused, write_safetensors, write_tiny, write_word_ids
from helpers.mutations import join_safetensors, split_safetensors
from helpers.softmaxes import WORDS as PREDICTED
from helpers.softmaxes import bytes_model

pytestmark = pytest.mark.conversions

BIAS, PROJECTION = "stacks.1.0.bias", "CNN_proj/b_proj"
LONG = "long" * 250_000
MANY_MEMBERS = [(f"m{i}", "f4") for i in range(1000)]
MOST = 1500  # characters of a message, the paths of this test included


# Whole models; the path that is read is returned


def write_our_format(folder):
    return write_safetensors(folder / "a.safetensors")


def write_words_alone(folder):
    """Write a model of words, with a vocabulary of ten words."""
    bilm = read_weights(reference_manylangs.write_random(folder / "source", char_dim=0))
    safetensors_file.write(bilm, folder / "a.safetensors")
    return folder / "a.safetensors"


def write_predicting(folder):
    return reference.write_hdf5(folder, *bytes_model(), PREDICTED)


def write_manylangs(folder):
    return reference_manylangs.write_random(folder) / "encoder.pkl"


def write_with_softmax_beside(folder):
    source = conversions.write_source(folder / "source")
    convert(source, folder / "a.safetensors")
    shutil.rmtree(source)
    return folder / "a.safetensors"


# Damages: what they return changes the files in a folder


def without(name):
    return lambda folder: (folder / name).unlink()


def rewritten(name, change):
    """Return a function that rewrites a file with changed bytes."""
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def content(name, data):
    return rewritten(name, lambda _: data)


def cut(name, size):
    """Cut a file to a number of bytes, or to a share of them."""
    return rewritten(name, lambda data: data[: int(size * len(data)) if 0 < size < 1 else size])


def changed_json(file, *keys, **changes):
    """Change the object under the keys of a JSON file; None removes a key."""

    def change(data):
        whole = part = json.loads(data)
        for key in keys:
            part = part[key]
        part.update(changes)
        for key in [key for key, value in changes.items() if value is None]:
            del part[key]
        return json.dumps(whole).encode()

    return rewritten(file, change)


def more_tensors(data):
    return save({**load(data), LONG: torch.zeros(2), "b": torch.zeros(1)})


def tensors(metadata=(), **changes):
    """Change tensors of a safetensors file; None removes one."""

    def change(data):
        kept = {k: tensor for k, tensor in {**load(data), **changes}.items() if tensor is not None}
        return save(kept, metadata={**safetensors_file._metadata(data), **dict(metadata)})

    return rewritten("a.safetensors", change)


def vocabulary(text):
    data = text if isinstance(text, bytes) else text.encode()
    return tensors(**{"vocabulary.words": torch.tensor(list(data), dtype=torch.uint8)})


def hdf5(change):
    def changed(folder):
        with h5py.File(folder / "weights.hdf5", "a") as file:
            change(file)

    return changed


def datasets(**changes):
    """Change datasets of an HDF5 file; None removes one."""

    def change(file):
        for name, values in changes.items():
            if name in file:
                del file[name]
            if values is not None:
                file[name] = values

    return hdf5(change)


def provenance(text):
    return hdf5(lambda file: file.attrs.update(spacy_elmo_provenance=text))


def with_dataset(create):
    """Replace a dataset of an HDF5 file by what a function creates under its name."""

    def change(file):
        del file[PROJECTION]
        create(file)

    return hdf5(change)


def created(**settings):
    return with_dataset(lambda file: file.create_dataset(PROJECTION, (5,), "f4", **settings))


def create_virtual(file):
    layout = h5py.VirtualLayout((5,), "f4")
    layout[:] = h5py.VirtualSource("other.h5", "x", shape=(5,))
    file.create_virtual_dataset(PROJECTION, layout)


def create_of_odd_type(file):
    """NumPy has no such type."""
    space = h5py.h5s.create_simple((5,))
    h5py.h5d.create(file.id, PROJECTION.encode(), h5py.h5t.UNIX_D32LE, space)


def create_packed_twice(file):
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_chunk((5,))
    properties.set_deflate(9)
    properties.set_deflate(9)
    space = h5py.h5s.create_simple((5,))
    h5py.h5d.create(file.id, PROJECTION.encode(), h5py.h5t.IEEE_F32LE, space, properties)


def create_packed_first(file):
    """Gzip comes before another filter, so the bytes in the file are not those of gzip."""
    settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    settings.set_chunk((5,))
    settings.set_deflate(9)
    settings.set_shuffle()
    space = h5py.h5s.create_simple((5,))
    h5py.h5d.create(file.id, PROJECTION.encode(), h5py.h5t.IEEE_F32LE, space, settings)


def chunk(data, unused=0, **settings):
    """Replace a dataset by one with these bytes as its only chunk.

    unused (int): A bit for each filter that was not used.
    """

    def create(file):
        dataset = file.create_dataset(PROJECTION, (5,), "f4", chunks=(5,), **settings)
        dataset.id.write_direct_chunk((0,), data, unused)

    return with_dataset(create)


def long_shape(folder):
    """Change the header of a safetensors file."""
    header, data = split_safetensors(folder / "a.safetensors")
    header[BIAS]["shape"] += [1] * 200_000
    join_safetensors(folder / "a.safetensors", header, data)


def sizes(**changes):
    return content("sizes.json", json.dumps(reference_manylangs.sizes_of(**changes)).encode())


def words(*lines):
    return content("vocab.txt", "".join(f"{line}\n" for line in lines).encode())


def packed_words(data):
    def change(folder):
        (folder / "vocab.txt").rename(folder / "vocab.txt.gz").write_bytes(data)

    return change


def characters(change):
    lines = [f"{entry}\t{i}" for i, entry in enumerate(reference_manylangs.CHARACTERS)]
    return content("char.dic", "".join(f"{line}\n" for line in change(lines)).encode())


def last_character(line):
    return characters(lambda lines: [*lines[:-1], line])


def pickled(value, name="char_emb_layer.embedding.weight"):
    def change(folder):
        state = torch.load(folder / "token_embedder.pkl", weights_only=True)
        state[name] = value
        kept = {name: tensor for name, tensor in state.items() if tensor is not None}
        torch.save(kept, folder / "token_embedder.pkl")

    return change


FOREIGN = "does not belong to the model"
PROVENANCES = [
    *((f'{{"lang": {lang}}}', "'lang' in its provenance") for lang in ('["de"]', '{"de": 1}', 5)),
    ('{"source": "\\udc80"}', "provenance is not UTF-8"),
    ('{"lang": "\\ud800"}', "provenance is not UTF-8"),
    ('{"mean": NaN}', "provenance is not valid JSON"),
    ('["x"]', "provenance is not a JSON object"),
]
OTHERS = [save({"weight": torch.zeros(3)}, metadata=given) for given in (None, {"format": "pt"})]
NEEDED = ["lstm", "lstm.dim", "lstm.projection_dim", "char_cnn.filters", "char_cnn.embedding.dim"]
CELL = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell"
SAFETENSORS = [
    *((cut("a.safetensors", size), "not a readable .safetensors") for size in (0, 4, 200, 0.5, -1)),
    (content("a.safetensors", b"no tensors here" * 20), "not a readable .safetensors"),
    *((content("a.safetensors", data), "Give a .safetensors file that") for data in OTHERS),
    *((tensors({"config": text}),) for text in ("{", "[1]", "3")),
    *((tensors({"config": f'{{"{name}": 0}}'}), name) for name in ("lstm", "lstm_dim")),
    (tensors(**{BIAS: None}), f"'{BIAS}' is missing", "(48,)"),
    (tensors(**{BIAS: torch.zeros(47)}), f"'{BIAS}'", "(47,)", "(48,)"),
    (tensors(**{BIAS: torch.zeros(48, dtype=torch.int32)}), f"'{BIAS}'", "int32"),
    (tensors(**{BIAS: torch.full((48,), torch.inf)}), BIAS, "not finite"),
    (tensors(more=torch.zeros(2, 3)), "'more'", "(2, 3)"),
    (vocabulary('["a"]'), "embeddings of 0 words, but their vocabulary has 1"),
    (tensors(**{LONG: torch.zeros(2)}), "a.safetensors", "longlong"),
    (tensors({"config": json.dumps({LONG: 1})}), "a.safetensors"),
    (
        content("a.safetensors", struct.pack("<Q", 1 + (1 << 21))),
        "its header claims 2,097,153 bytes",
    ),
    (long_shape, "a.safetensors"),
    *((tensors({"provenance": text}), "a.safetensors", *named) for text, *named in PROVENANCES),
]
WORDS_ALONE = [
    (tensors(**{"vocabulary.words": None}), "embeddings of 10 words, but their vocabulary has 0"),
    (vocabulary("[1, 2]"), "vocabulary.words': not a list of strings"),
    (vocabulary('["a", "a"]'), "'a' appears twice"),
    (vocabulary(" " * (1 << 21)), "2,097,152 bytes for 10 embeddings"),
    *((vocabulary(text), "vocabulary.words'") for text in ('["a"', b"\xff\xfe", b"[" * 10**5)),
    (tensors(**{"vocabulary.words": torch.zeros(5)}), "contains float32, not bytes"),
    (vocabulary(json.dumps([*"abcdefghi", None])), "lacks <oov>"),
]
SIZE = f"a chunk of '{PROJECTION}' does not have its declared size"
ALLENNLP = [
    *((cut("weights.hdf5", size), "not a readable HDF5") for size in (0, 100, 0.5, -1)),
    (datasets(char_embed=None), "'char_embed' is missing", "options.json", "(261, 4)"),
    (datasets(char_embed=np.zeros((260, 4))), "(260, 4). According to", "options.json", "(261, 4)"),
    (datasets(**{f"{CELL}x/B": np.zeros(48, "f4")}), f"'{CELL}x/B' (48,)", "options.json"),
    (datasets(**{f"CNN/{'x' * 60_000}": np.zeros(2)}), "CNN/xxx"),
    (datasets(**{PROJECTION: np.zeros(5, "int32")}), f"'{PROJECTION}' contains 'int32'"),
    (datasets(**{PROJECTION: np.zeros(5, MANY_MEMBERS)}), PROJECTION, "not floats"),
    (datasets(**{PROJECTION: h5py.Empty("f4")}), f"'{PROJECTION}' is empty"),
    (with_dataset(create_of_odd_type), PROJECTION, "not a readable HDF5 file"),
    # The other file is not opened.
    (with_dataset(create_virtual), f"'{PROJECTION}' is in another file"),
    (created(external="secret"), f"'{PROJECTION}' is in another file"),
    (datasets(**{PROJECTION: h5py.ExternalLink("other.h5", "x")}), f"'{PROJECTION}' is missing"),
    # HDF5 would load a plugin, or unpack to more than the sizes that are checked.
    (created(compression="lzf"), "its compression is not gzip"),
    (with_dataset(create_packed_twice), "its compression is not gzip"),
    (with_dataset(create_packed_first), "its compression is not gzip"),
    # HDF5 would read more memory than the chunk has.
    (chunk(bytes(4)), SIZE),
    (chunk(bytes(4), shuffle=True), SIZE),
    (chunk(bytes(20), fletcher32=True), SIZE),
    (chunk(bytes(4), unused=1, compression="gzip"), SIZE),
    *((chunk(zlib.compress(bytes(n)), compression="gzip"), SIZE) for n in (0, 4, 24)),
    (chunk(zlib.compress(bytes(24)), unused=2, compression="gzip"), SIZE),
    (hdf5(lambda file: file.create_dataset("x", (10**8,), "f4")), "claims to contain 400,0"),
    (hdf5(lambda file: file.create_group("a/" * 40)), "32 levels of groups"),
    *((content("options.json", text), "options.json") for text in (b"{", b"[]", b"\xff\xfe")),
    (content("options.json", b"[" + b" " * (1 << 21)), "options.json", "more than 2,097,152 bytes"),
    *(
        (changed_json("options.json", *section, **{key: None}), f"'{'.'.join([*section, key])}'")
        for *section, key in (name.split(".") for name in NEEDED)
    ),
    (provenance("3"), "weights.hdf5: the provenance is not a JSON object"),
    (provenance("[" * 60_000), "weights.hdf5"),
    (without("options.json"), "weights.hdf5", "options.json"),
    (changed_json("options.json", bidirectional=False), "RNN_0/RNN/MultiRNNCell/Cell0", FOREIGN),
]
WORD_IDS = [
    (words("<S>", "</S>", "<UNK>"), "3 words, but dataset 'embedding'"),
    (words("<s>", *"abcdefg"), "lacks <S>"),
    (content("vocab.txt", b"\xff\n\xfe\n"), "vocab.txt", "UTF-8"),
    (datasets(embedding=None), "weights.hdf5", "no dataset 'embedding'", "char_cnn"),
    (datasets(embedding=np.zeros(8)), "no dataset 'embedding' with one row per word"),
    (datasets(embedding=np.zeros((0, 5))), "no dataset 'embedding' with one row per word"),
]
PREDICTING = [
    (datasets(**{"softmax/b": None}), "weights.hdf5", "'softmax/b' is missing", "(8,)"),
    (datasets(**{"softmax/W": None}), "weights.hdf5", "'softmax/W' is missing"),
    (datasets(**{"softmax/W": np.zeros((8, 6))}), "weights.hdf5", "(8, 6)", "(8, 5)"),
    (datasets(**{"softmax/W": np.ones((7, 5)), "softmax/b": np.ones(7)}), "8 words, but", "7 rows"),
    (words(*PREDICTED[1:], "x"), "starts with <S>, </S>, <UNK>"),
    (packed_words(gzipped(b"the\n" * 1000)[:-9]), "vocab.txt.gz", "not a readable gzip file"),
    (packed_words(b"the\n"), "vocab.txt.gz", "not a readable gzip file"),
    (packed_words(gzipped(b"a" * (1 << 22))), "vocab.txt.gz", "unpacks to more than"),
]
LARGE = f"a\t{'9' * 5000}"
LINE_22 = "line 22 is not 'token<TAB>id'"
MANYLANGS = [
    *((without(name), name, "missing") for name in ("char.dic", "word.dic", "config.json")),
    (without("token_embedder.pkl"), "token_embedder.pkl", "missing"),
    (characters(lambda lines: lines[:-1]), "21 entries, but 'char_emb_layer.embedding.weight'"),
    (last_character("new\t22"), "line 22 has the id 22, but"),
    (last_character("new\t3"), "line 22 repeats the id 3"),
    *((last_character(line), LINE_22) for line in ("x\t-1", "x", "", "a\tb\t21", LARGE)),
    (characters(lambda lines: [line.replace("<oov>", "<unk>") for line in lines]), "lacks <oov>"),
    (content("word.dic", b"\xff\xfe\t1\n"), "word.dic", "UTF-8"),
    *(
        (sizes(**changes), "sizes.json", *named)
        for changes, *named in (
            ({"dim": 21}, "forward_layer_0.input_linearity.weight", (80, 6), (84, 6)),
            ({"n_layers": 101}, "n_layers", "101"),
            ({"word_dim": 0}, "word_emb_layer.embedding.weight", FOREIGN),
            ({"filters": "wide"}, "filters", "wide"),
            ({"dim": None}, "lstm_dim", "None"),
        )
    ),
    *(
        (changed_json("sizes.json", section, name="lstm"), "sizes.json", f"'{section}'", "'lstm'")
        + ("is supported",)
        for section in ("encoder", "token_embedder")
    ),
    (changed_json("sizes.json", "encoder", dim=None), "'encoder.dim' is missing"),
    *(
        (content(name, text), name)
        for name in ("config.json", "sizes.json")
        for text in (b"{", b"[]", b"{}", b"\xff\xfe", b"[" * 10**5)
    ),
    *(
        (changed_json("config.json", config_path=path),)
        for path in ("", None, 3, "a\0b", "x" * 5000, "/dev/zero", "\ud800")
    ),
    (pickled(None), "token_embedder.pkl", "must be a matrix"),
    (pickled(torch.zeros(3)), "token_embedder.pkl", "(3,)"),
    (pickled(torch.full((22, 4), torch.nan)), "token_embedder.pkl", "not finite"),
    (pickled(torch.zeros(2), LONG[:200_000]), "token_embedder.pkl"),
    (changed_json("config.json", spacy_elmo_provenance=["x"]), "config.json", "not a JSON object"),
]
PIPELINE = [
    (words(LONG, *conversions.WORDS[1:]), "vocab.txt"),
    (words(*conversions.WORDS[:4], LONG[:10_000], LONG[:10_000]), "vocab.txt"),
    (words(*conversions.WORDS, "x"), "(6, 5)", "the 7 words"),
    (words("the", *conversions.WORDS[:3]), "vocab.txt", "starts with <S>"),
    (content("vocab.txt", b"<S>\n\xff\n"), "vocab.txt", "UTF-8"),
    (content("softmax.safetensors", b"x"), "softmax.safetensors"),
    (rewritten("softmax.safetensors", more_tensors), "described by the 6 words of vocab.txt"),
    *((content("meta.json", text), "meta.json") for text in (b"{", b"[]", b"3", b'{"vectors": 3}')),
    (content("config.cfg", b"\n" * (1 << 19)), "config.cfg: more than 262,144 bytes"),
    (content("config.cfg", b"\n[a]" * 1001), "config.cfg: more than 1,000 sections"),
    *(
        (content("config.cfg", text.encode()), "config.cfg: ", *named)
        for text, *named in (
            ("[nlp]\nlang = 3", "[nlp] lang must be a string, got 3"),
            ("[nlp]\npipeline = [[1]]", "a list of strings, got [[1]]"),
            ('[nlp]\npipeline = "elmo"', "a list of strings, got 'elmo'"),
            ("[components]\nelmo = 3", "elmo must be a section, got 3"),
            ("[nlp]\n[nlp]", "not a readable config: ", "already exists"),
            ("[nlp", "not a readable config"),
        )
    ),
]
BESIDE = "a.softmax.safetensors"
SOFTMAX_BESIDE = [
    (cut(BESIDE, -3), f"{BESIDE}: "),
    (content(BESIDE, save({"weight": torch.zeros(2)})), "tensor 'words' is missing"),
    (content(BESIDE, save({"words": torch.zeros(2)})), "does not contain bytes"),
    (rewritten(BESIDE, lambda data: data.replace("ï".encode(), b"\xff\xff")), "not UTF-8"),
    (
        rewritten(BESIDE, lambda data: data.replace("\n日".encode(), "_日".encode())),
        f"According to the 5 words of {BESIDE}",
    ),
]
TABLE = [(write_our_format, SAFETENSORS), (write_words_alone, WORDS_ALONE), (write_tiny, ALLENNLP)]
TABLE += [(write_word_ids, WORD_IDS), (write_predicting, PREDICTING), (write_manylangs, MANYLANGS)]
TABLE += [(conversions.write_source, PIPELINE), (write_with_softmax_beside, SOFTMAX_BESIDE)]


@pytest.mark.parametrize(
    ("write", "damage", "named"),
    [
        pytest.param(write, damage, named, id=f"{write.__name__[6:]}-{number}")
        for write, rows in TABLE
        for number, (damage, *named) in enumerate(rows)
    ],
)
def test_malformed_files_are_refused_in_one_line(tmp_path, write, damage, named):
    """The model is read from its file and from its folder, and the line is short."""
    path = write(tmp_path / "model")
    damage(tmp_path / "model")
    has_softmax = write in (write_predicting, conversions.write_source, write_with_softmax_beside)
    # A pipe reads only the weights; a softmax and a vocabulary are then not looked at.
    read = read_bundle if has_softmax else read_weights
    for place, reader in ((path, read_bundle), (tmp_path / "model", read)):
        message = check_refused(lambda f=reader, p=place: f(p), tmp_path / "model", *named)
        assert len(message) < MOST and ("\n" not in message or "config.cfg" in message)
