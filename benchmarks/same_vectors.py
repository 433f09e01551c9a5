"""Comparison of all layers, states and gradients of many models before and after a change.

Use it to check that a change of the code changes no number:

    python benchmarks/same_vectors.py dump before.npz
    python benchmarks/same_vectors.py dump after.npz      # after the change
    python benchmarks/same_vectors.py compare before.npz after.npz
    python benchmarks/same_vectors.py exact               # layers in float32 and in float64

The models are `en_small`, the models in tests/fixtures, and the tiny models of the tests. Each runs
from zero state, after a warm-up and with carried state, frozen and with gradients, and in every
precision of this machine. `compare` prints the arrays that differ, and exits with 1 if there are
any. The last bits depend on the machine, the version of PyTorch and the number of threads. So make
both dumps on one machine with one thread.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import spacy
import srsly
import torch
from torch import Tensor

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.frozen.kernel import resolve_precision
from spacy_elmo.frozen.model import FrozenBiLM
from spacy_elmo.weights import read_weights

ROOT = Path(__file__).resolve().parents[1]
FIXTURES = ROOT / "tests" / "fixtures"
sys.path.insert(0, str(ROOT / "tests"))

from helpers import models, reference, reference_manylangs  # noqa: E402

BILM_TF: list[dict[str, Any]] = [
    {},
    {"activation": "tanh", "n_highway": 0},
    {"n_layers": 1, "filters": [[1, 2], [3, 3]]},  # F == P
    {"n_layers": 3, "n_highway": 2, "use_skip_connections": False},
    {"dim": 6, "projection_dim": 6},  # P == D
    {"cell_clip": None, "proj_clip": None, "max_characters_per_token": 50},
    {"cell_clip": 0.7, "proj_clip": 0.5},
]
MANYLANGS: list[dict[str, Any]] = [
    {},
    {"word_dim": 0},
    {"char_dim": 0},
    {"n_layers": 1, "activation": "tanh", "n_highway": 1},
    {"cell_clip": 0.7, "proj_clip": 0.5, "filters": [[1, 3], [12, 4]]},
]
WORDS = ["<S>", "</S>", "<UNK>", "The", "cat", "one", "."]
PRECISIONS = ("float32", "bfloat16", "int8")
SEGMENTERS: list[dict[str, Any]] = [
    {"@segmenters": "spacy-elmo.sentences.v1"},
    {"@segmenters": "spacy-elmo.windows.v1", "size": 20, "overlap": 6},
    {"@segmenters": "spacy-elmo.doc.v1"},
]


def read_models(folder: Path) -> Iterator[tuple[str, Path | str]]:
    """Yield the name and the path of every model. Tiny models are written to a folder."""
    yield "en_small", "en_small"
    for name in ("bilm_tf/skip", "bilm_tf/plain", "manylangs"):
        yield name, FIXTURES / name
    for i, changes in enumerate(BILM_TF):
        options = models.tiny_options(**changes)
        data = reference.random_datasets(options, seed=i)
        yield f"tiny {changes}", reference.write_hdf5(folder / f"bilm_tf_{i}", options, data)
    options = models.tiny_options()
    del options["char_cnn"]
    data = reference.random_datasets(options, n_words=len(WORDS))
    yield "tiny words", reference.write_hdf5(folder / "words", options, data, WORDS)
    one_direction = {**models.tiny_options(), "bidirectional": False}
    data = models.renamed(reference.random_datasets(one_direction), models.ONE_DIRECTION)
    del one_direction["bidirectional"]
    yield "tiny one direction", reference.write_hdf5(folder / "forward", one_direction, data)
    for i, changes in enumerate(MANYLANGS):
        sizes = reference_manylangs.sizes_of(**changes)
        tensors = reference_manylangs.random_tensors(sizes, seed=i)
        path = reference_manylangs.write_folder(folder / f"manylangs_{i}", sizes, tensors)
        yield f"tiny manylangs {changes}", path


def read_streams() -> list[list[list[str]]]:
    """Return batches of sentences; each row of the batches is a stream.

    They contain the fixture's sentences, tokens of all kinds, and sentences that are so long that
    they are run in windows.
    """
    streams: list[list[list[str]]] = srsly.read_json(FIXTURES / "bilm_tf" / "sentences.json")
    batches = [list(batch) for batch in zip(*streams)]
    words = [token for batch in batches for sentence in batch for token in sentence]
    rng = np.random.default_rng(0)
    batches.append(models.SENTENCES[:3])
    batches.append([*models.SENTENCES[3:], list(rng.choice(words, size=40))])
    batches.append([list(rng.choice(words, size=n)) for n in (700, 1, 1500)])
    return batches


def arrays_of(bilm: FrozenBiLM, batches: list[list[list[str]]]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the layers and states of a frozen model.

    First, all sentences except the long ones run at once, from zero state and after a warm-up. Then
    the batches run with carried state.
    """
    together = [sentence for batch in batches[:-1] for sentence in batch]
    for kind in (None, "warm"):
        layers, state = bilm.embed(together, kind)
        yield f"{kind or 'zeros'}", np.concatenate(layers, axis=1)
        yield f"{kind or 'zeros'} hidden", state.hidden
    carried = None
    for i, batch in enumerate(batches):
        layers, carried = bilm.embed(batch, carried)
        yield f"carried {i}", np.concatenate(layers, axis=1)
    assert carried is not None
    yield "carried hidden", carried.hidden
    yield "carried cell", carried.cell


def gradients_of(bilm: BiLM, batch: list[list[str]]) -> Iterator[tuple[str, Tensor]]:
    """Yield the layers in training, and the gradients of a random weighted sum of them."""
    bilm.requires_grad_(True)
    layers = torch.cat(bilm.embed(batch)[0], dim=1)
    yield "trained", layers.detach()
    rng = np.random.default_rng(0)
    (layers * torch.from_numpy(rng.standard_normal(layers.shape).astype("f"))).sum().backward()
    for name, weight in bilm.named_parameters():
        if weight.grad is not None:
            yield f"gradient {name}", weight.grad
    bilm.requires_grad_(False)


def pipeline_arrays(weights: Path | str) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the layers and tensors of Docs with several sentences, for every segmenter."""
    words = [token for batch in read_streams()[:8] for sentence in batch for token in sentence]
    for segmenter in SEGMENTERS:
        nlp = spacy.blank("en")
        nlp.add_pipe("sentencizer")
        sizes = {"weights": str(weights), "segmenter": segmenter, "max_batch_tokens": 50}
        nlp.add_pipe("elmo", config={**sizes, "store_layers": True})
        texts = [" ".join(words[:60]), "", " ".join(words[60:]), "One ."]
        for i, doc in enumerate(nlp.pipe(texts)):
            yield f"{segmenter['@segmenters']} {i} layers", doc._.elmo
            yield f"{segmenter['@segmenters']} {i} tensor", doc.tensor


def collect(folder: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Yield all arrays by name."""
    batches = read_streams()
    for name, weights in read_models(folder):
        for precision in PRECISIONS:
            bilm = read_weights(weights).replace(precision=precision)
            if resolve_precision(precision, bilm.kernel) != precision:
                continue  # This machine does not support the precision.
            for what, array in arrays_of(bilm, batches):
                yield f"{name}, {precision}: {what}", array
        bilm = BiLM.from_frozen(read_weights(weights))
        if name != "en_small":  # Its gradients would need 40 MB.
            for what, tensor in gradients_of(bilm, batches[-2]):
                yield f"{name}, {what}", tensor.numpy()
        for what, array in pipeline_arrays(weights):
            yield f"{name}, {what}", array
        print(name, file=sys.stderr)


def dump(path: Path) -> None:
    with TemporaryDirectory() as folder:
        arrays = dict(collect(Path(folder)))
    np.savez_compressed(path, **{name.replace("/", "|"): array for name, array in arrays.items()})
    print(f"{path}: {len(arrays)} arrays, {sum(array.size for array in arrays.values()):,} numbers")


def compare(one: Path, other: Path) -> bool:
    """Print the arrays that differ, and return whether all are the same."""
    with np.load(one) as before, np.load(other) as after:
        only = sorted(set(before.files) ^ set(after.files))
        for name in only:
            print(f"only in {one if name in before.files else other}: {name}")
        differing = 0
        shared = sorted(set(before.files) & set(after.files))
        for name in shared:
            then, now = before[name], after[name]
            if (then.shape, then.dtype, then.tobytes()) != (now.shape, now.dtype, now.tobytes()):
                differing += 1
                same_shape = then.shape == now.shape
                how = f"{np.abs(now - then).max():.3g}" if same_shape else f"{then.shape}"
                print(f"differs by up to {how}: {name}")
    print(f"{len(shared) - differing} of {len(shared)} arrays are the same, bit for bit")
    return bool(shared) and not only and not differing


def exact() -> None:
    """Print the largest difference of each model's layers to the layers in float64."""
    *short, long = read_streams()
    sentences = [sentence for batch in short for sentence in batch]
    sentences += [sentence[:200] for sentence in long]
    with TemporaryDirectory() as folder:
        for name, weights in read_models(Path(folder)):
            bilm = read_weights(weights)
            module = BiLM.from_frozen(bilm).double().requires_grad_(False)
            layers = np.concatenate(bilm.embed(sentences)[0], axis=1)
            expected = torch.cat(module.embed(sentences)[0], dim=1).numpy()
            print(f"{np.abs(layers - expected).max():.1e}  {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=RAW)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("dump", help="write all numbers to a file")
    command.add_argument("path", type=Path)
    command.add_argument("--threads", type=int, default=1)
    command = commands.add_parser("compare", help="print the differences of two files")
    command.add_argument("one", type=Path)
    command.add_argument("other", type=Path)
    commands.add_parser("exact", help="print the differences to float64")
    args = parser.parse_args()
    if args.command == "dump":
        torch.set_num_threads(args.threads)
        dump(args.path)
    elif args.command == "exact":
        exact()
    elif not compare(args.one, args.other):
        sys.exit(1)


RAW = argparse.RawDescriptionHelpFormatter

if __name__ == "__main__":
    main()
