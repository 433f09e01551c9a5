"""Malformed files of every format: one line names the file and the error."""

import json
import shutil

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
from helpers.models import check_refused, tiny_options, write_safetensors, write_tiny
from helpers.mutations import join_safetensors, split_safetensors
from helpers.softmaxes import WORDS as PREDICTED
from helpers.softmaxes import bytes_model

pytestmark = pytest.mark.conversions

WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", ".", "日本語", "x" * 60]
DATA = reference.random_datasets(tiny_options())
LONG = "long" * 250_000
MOST = 1500  # characters of a message, the paths of this test included


# Whole models; the path that is read is returned


def write_our_format(folder):
    return write_safetensors(folder / "a.safetensors")


def write_words_alone(folder):
    """Write a model of words, with a vocabulary of ten words."""
    bilm = read_weights(reference_manylangs.write_random(folder / "source", char_dim=0))
    safetensors_file.write(bilm, folder / "a.safetensors")
    return folder / "a.safetensors"


def write_word_ids(folder):
    return reference.write_random(folder, {"lstm": tiny_options()["lstm"]}, words=WORDS)


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


def header(change):
    """Change the header of a safetensors file."""

    def changed(folder):
        entries, data = split_safetensors(folder / "a.safetensors")
        change(entries["stacks.0.0.bias"])
        join_safetensors(folder / "a.safetensors", entries, data)

    return changed


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
BIAS = "stacks.1.0.bias"
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
    (header(lambda entry: entry.update(dtype=LONG)), "a.safetensors"),
    (header(lambda entry: entry["shape"].extend([1] * 200_000)), "a.safetensors"),
    *((tensors({"provenance": text}), "a.safetensors", *named) for text, *named in PROVENANCES),
]
WORDS_ALONE = [
    (tensors(**{"vocabulary.words": None}), "embeddings of 10 words, but their vocabulary has 0"),
    (vocabulary("[1, 2]"), "vocabulary.words': not a list of strings"),
    (vocabulary('["a", "a"]'), "'a' appears twice"),
    *((vocabulary(text), "vocabulary.words'") for text in ('["a"', b"\xff\xfe", b"[" * 10**5)),
    (tensors(**{"vocabulary.words": torch.zeros(5)}), "contains float32, not bytes"),
    (vocabulary(json.dumps([*"abcdefghi", None])), "lacks <oov>"),
]
ALLENNLP = [
    *((cut("weights.hdf5", size), "not a readable HDF5") for size in (0, 100, 0.5, -1)),
    *(
        (datasets(**{name: None}), f"'{name}' is missing", "options.json", DATA[name].shape)
        for name in ("char_embed", "CNN/b_cnn_1", "CNN_proj/W_proj", f"{CELL}/W_P_0")
    ),
    *(
        (datasets(**{name: DATA[name][:-1]}), f"'{name}'", DATA[name][:-1].shape, "options.json")
        + (DATA[name].shape,)
        for name in ("char_embed", "CNN/W_cnn_2", "CNN_high_0/W_carry", f"{CELL}/W_0", f"{CELL}/B")
    ),
    (datasets(**{"CNN_proj/W_proj": DATA["CNN_proj/W_proj"].T}), "W_proj'", (5, 18), (18, 5)),
    *(
        (changed_json("options.json", section, **{key: value}), named, "(", "options.json")
        for section, key, value, named in (
            ("lstm", "n_layers", 1, "Cell1/LSTMCell"),
            ("lstm", "dim", 13, "LSTMCell"),
            ("char_cnn", "n_highway", 0, "CNN_high_0"),
        )
    ),
    (datasets(**{f"{CELL}x/B": np.zeros(48, "f4")}), f"'{CELL}x/B' (48,)", "options.json"),
    (datasets(**{"CNN_proj/b_proj": np.zeros(5, "int32")}), "'CNN_proj/b_proj'", "int32"),
    (datasets(**{f"{CELL}/W_0": np.array([b"text"] * 10, h5py.string_dtype())}), f"'{CELL}/W_0'"),
    (datasets(**{f"{CELL}/W_0": h5py.SoftLink("/")}), f"'{CELL}/W_0'"),
    (datasets(**{"CNN/b_cnn_0": None, "CNN/b_cnn_0/x": np.zeros(4)}), "CNN/b_cnn_0"),
    *(
        (content("options.json", text), "options.json")
        for text in (b"{", b"", b"[]", b"{}", b"\xff\xfe", b'"lstm"', b"null")
    ),
    *(
        (changed_json("options.json", *section, **{key: None}), f"'{'.'.join([*section, key])}'")
        for *section, key in (name.split(".") for name in NEEDED)
    ),
    (datasets(**{f"CNN/{'x' * 60_000}": np.zeros(2)}), "CNN/xxx"),
    *((provenance(text), "weights.hdf5", *named) for text, *named in PROVENANCES),
    (without("options.json"), "weights.hdf5", "options.json"),
    (changed_json("options.json", bidirectional=False), "RNN_0/RNN/MultiRNNCell/Cell0", FOREIGN),
]
WORD_IDS = [
    (words(*WORDS[:-1]), "7 words, but dataset 'embedding'"),
    (words("<s>", *WORDS[1:]), "lacks <S>"),
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
            ({"n_layers": 1}, "forward_layer_1", FOREIGN),
            ({"n_layers": 3}, "forward_layer_2.input_linearity.weight", "is missing"),
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
        for text in (b"{", b"", b"[]", b"{}", b"\xff\xfe", b"null", b"[" * 10**5)
    ),
    *(
        (changed_json("config.json", config_path=path),)
        for path in ("", None, 3, "a\0b", "x" * 5000, "/dev/zero", "\ud800")
    ),
    *(
        (pickled(value), "token_embedder.pkl", named)
        for value, named in (
            (None, "must be a matrix"),
            (torch.zeros(3), "(3,)"),
            (torch.zeros(22, 4, dtype=torch.int32), "asks for"),
            (torch.full((22, 4), torch.nan), "not finite"),
            (torch.zeros(1).expand(22, 4), "claims to contain 352 bytes"),
            (torch.zeros(22, 4).to_sparse(), "asks for"),
            ([1, 2], "not a state dict"),
        )
    ),
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
