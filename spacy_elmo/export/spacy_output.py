"""Output as spaCy Docs with vectors, and the reader of these Docs."""

import json
import re
import sys
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Union

import srsly
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab
from srsly.msgpack import Packer

from ..embedding.embed import by_tokens
from ..embedding.mix import mix_layers
from ..embedding.vectors import keep_vectors, restore_vectors
from ..files import user_path
from ..files.input_files import read_docbin
from ..files.paths import content_names
from .entries import Embedded, WriteOptions, parse_settings

SUFFIXES = (".spacy", "")
IS_FOLDER = True
SETTINGS = "meta.json"
_NAMES = re.compile(rf"\d{{8}}\.spacy|{re.escape(SETTINGS)}")
LAYERS = "elmo_layers"  # Key in `Doc.user_data`.
SHARD_BYTES = 1 << 23  # Maximum bytes of a file. Several copies of a file are in memory.
TOKEN_BYTES = 128  # Estimated bytes of a token without its vector.


def write(
    path: Path, entries: Iterable[Embedded], settings: dict[str, Any], options: WriteOptions
) -> None:
    """Write a folder of `.spacy` files, `00000000.spacy` and so on, and `meta.json`.

    path (Path): The folder.
    entries (Iterable[Embedded]): The entries.
    settings (dict): Settings of the run, for `meta.json`.
    options (WriteOptions): Not used, because a Doc always has its text and has no index.
    """
    path.mkdir()
    for number, group in enumerate(by_tokens(entries, SHARD_BYTES, sys.maxsize, _n_bytes)):
        vocab = Vocab()  # A shared vocab would collect the words of the whole corpus.
        (path / f"{number:08}.spacy").write_bytes(_packed(_doc(entry, vocab) for entry in group))
    (path / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n", "utf8")


def read_settings(path: Path) -> dict[str, Any]:
    """Return the settings that `write` stored; empty if another program wrote the folder."""
    file = path / SETTINGS
    return parse_settings(file.read_bytes()) if file.is_file() else {}


def is_foreign(path: Path) -> bool:
    """Return whether a folder contains files that `write` does not write."""
    names = content_names(path)
    is_ours = read_settings(path).get("format") == "spacy"
    return bool(names) and not (is_ours and all(map(_NAMES.fullmatch, names)))


def load_docs(path: Union[str, Path], vocab: Vocab) -> Iterator[Doc]:
    """Read the Docs that `python -m spacy elmo embed` wrote, in order, and restore their vectors.

    This restores `doc.tensor`, and `.vector`, `.has_vector` and `.similarity` of Docs, spans and
    tokens. If the output has all layers, they are in `doc._.elmo`, and the tensor is their
    average. One file is in memory at a time.

    path (Union[str, Path]): The folder, a folder of shards, or a `.spacy` file.
    vocab (Vocab): The vocab of the Docs.
    YIELDS (Doc): A Doc.
    RAISES (ValueError): The path contains no Docs, or the Docs have no vectors.
    """
    path = user_path(path)
    found = [*path.glob("*.spacy"), *path.glob("part-*/*.spacy")] if path.is_dir() else [path]
    files = sorted(file for file in found if file.is_file() and file.name[0] != ".")
    if not files:
        raise ValueError(f"no .spacy file at '{path}'. Give the output folder of `embed`.")
    for file in files:
        for doc in read_docbin(file, vocab):
            yield _restored(doc)


def _n_bytes(entry: Embedded) -> int:
    return entry.vectors.nbytes + TOKEN_BYTES * (len(entry.words) + 1)


def _packed(docs: Iterable[Doc]) -> bytes:
    """Pack Docs like `DocBin(docs=docs, store_user_data=True).to_bytes()`, but faster.

    DocBin searches for msgpack plug-ins once per Doc, and compresses vectors, which do not get
    smaller.
    """
    without, user_data, packer = DocBin(), [], Packer(use_bin_type=True)
    for doc in docs:
        without.add(doc)
        user_data.append(packer.pack(doc.user_data))
    content = srsly.msgpack_loads(zlib.decompress(without.to_bytes()))
    compressor = zlib.compressobj(strategy=zlib.Z_RLE)
    packed = packer.pack({**content, "user_data": user_data})
    return compressor.compress(packed) + compressor.flush()


def _doc(entry: Embedded, vocab: Vocab) -> Doc:
    if entry.doc is not None:
        doc = Doc(vocab).from_bytes(entry.doc)
    else:
        n = len(entry.words)
        doc = Doc(vocab, words=entry.words, spaces=[i < n - 1 for i in range(n)])
    if entry.vectors.ndim == 3:
        doc.user_data[LAYERS] = entry.vectors
        return doc
    doc.tensor = entry.vectors
    return keep_vectors(doc)


def _restored(doc: Doc) -> Doc:
    layers = doc.user_data.pop(LAYERS, None)
    if layers is not None:
        doc._.elmo = layers.astype("float32")
        doc.tensor = mix_layers(doc._.elmo, "average")
    restore_vectors(doc)
    doc.tensor = doc.tensor.astype("float32", copy=False)
    return doc
