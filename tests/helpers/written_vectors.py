"""Small inputs of `embed`, and its outputs, read by the libraries of their formats alone."""

import json

import h5py
import numpy as np
import pyarrow.parquet
import spacy
from spacy.tokens import DocBin

SENTENCES = [["The", "cat", "sat", "."], [], ["a/b", "naïve", "日本", "😀", '"quoted"\\']]
SENTENCES += [["one"], ["The", "cat", "sat", "."], ["The", "end"]]
TEXT = "She sat on the bank . The bank lends money ."
CONLLU = """\
# sent_id = 1
1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_
1\tde\tde\tADP\t_\t_\t0\troot\t_\t_
2\tle\tle\tDET\t_\t_\t1\tdet\t_\t_
2.1\tempty\t_\t_\t_\t_\t_\t_\t_\t_

# sent_id = 2
1\tFin\tfin\tNOUN\t_\t_\t0\troot\t_\tSpaceAfter=No
2\t.\t.\tPUNCT\t_\t_\t1\tpunct\t_\t_
"""
FORMATS = {"hdf5": "out.hdf5", "npz": "out.npz", "parquet": "out.parquet", "spacy": "out"}


def read(format, path):
    """The arrays, in order."""
    return globals()[f"_{format}"](path)


def _hdf5(path):
    with h5py.File(path) as file:
        return [file[str(i)][()] for i in range(sum(map(str.isdecimal, file)))]


def _npz(path):
    with np.load(path) as file:
        return [file[str(i)] for i in range(sum(map(str.isdecimal, file)))]


def _parquet(path):
    table = pyarrow.parquet.read_table(path)
    assert table["index"].to_pylist() == list(range(len(table)))
    names = [name for name in table.column_names if name.startswith(("vectors", "layer_"))]
    found = []
    for i in range(len(table)):
        layers = [_stack(table[name][i]) for name in names]
        found.append(layers[0] if names == ["vectors"] else np.stack(layers))
    return found


def vectors_of(table, name="vectors", width=12):
    """The vectors of each row of a table."""
    return [np.array(cell, "float32").reshape(-1, width) for cell in table[name].to_pylist()]


def assert_same(found, wanted):
    """Two tables have the same tokens and vectors."""
    assert found["tokens"].to_pylist() == wanted["tokens"].to_pylist()
    for ours, theirs in zip(vectors_of(found), vectors_of(wanted), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-5)


def _stack(cell):
    vectors = cell.values  # of one row: a list of lists of numbers
    flat = vectors.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(vectors), vectors.type.list_size)


def _spacy(path):
    found = []
    for file in sorted(path.glob("*.spacy")):
        for doc in DocBin().from_disk(file).get_docs(spacy.blank("xx").vocab):
            keys = [key for key in ("elmo_tensor", "elmo_layers") if key in doc.user_data]
            assert len(keys) == 1
            found.append(doc.user_data[keys[0]])
    return found


def index_of(format, path):
    """`sentence_to_index`, as readers of AllenNLP's files get at it."""
    with h5py.File(path) if format == "hdf5" else np.load(path) as file:
        assert file["sentence_to_index"].shape == (1,)
        return json.loads(file["sentence_to_index"][0])
