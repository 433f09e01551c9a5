"""Similarity of the vectors in lower precisions to those in float32, on any processor.

    python benchmarks/rounding.py TEXT --weights en_small --scales 1 2 4
    python benchmarks/rounding.py TEXT --size original --tokens 2000

The numpy kernel rounds weights and inputs like the compiled kernels, on any processor. A scale
multiplies all matrices of the LSTMs, to test larger weights than those of the model. The script
prints the minimum cosine of the average of the layers, and of the layer that changes most. The
neighbor of a token is the nearest other token among the first 1,500, by the average of the layers.
TEXT has one sentence per line, as in inference.py. A batch has 32 sentences.
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from language_models import SIZES, make_model, read_sentences
from torch import Tensor
from torch.nn.functional import normalize

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.frozen.kernel.numpy_kernel import NumpyKernel
from spacy_elmo.frozen.model import FrozenBiLM

LOWER = ("bfloat16", "int8")
BATCH = 32
NEIGHBORS = 1500


class AnyPrecision(NumpyKernel):
    """Numpy kernel that allows all precisions on any processor."""

    fast_types = LOWER


def average_and_layers(bilm: FrozenBiLM, sentences: list[list[str]], name: str) -> Tensor:
    """Compute the average of the layers, and the layers, in a precision.

    RETURNS (Tensor): *Shape:* `(1 + n_layers + 1, n_tokens, width)`
    """
    rounded = bilm.replace(precision=name, kernel=AnyPrecision())
    batches = [sentences[i : i + BATCH] for i in range(0, len(sentences), BATCH)]
    parts = [torch.from_numpy(np.concatenate(rounded.embed(b)[0], axis=1)) for b in batches]
    layers = torch.cat(parts, dim=1).double()
    return torch.cat([layers.mean(dim=0, keepdim=True), layers])


def nearest(vectors: Tensor) -> Tensor:
    """Return the nearest other token of each of the first tokens."""
    unit = normalize(vectors[:NEIGHBORS])
    return (unit @ unit.t()).fill_diagonal_(-1.0).argmax(dim=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--size", choices=SIZES, default="default")
    parser.add_argument("--weights", help="weights to read; default: random weights of --size")
    parser.add_argument("--scales", type=float, nargs="+", default=[1.0])
    parser.add_argument("--tokens", type=int, default=8000)
    args = parser.parse_args()
    sentences, n_tokens = [], 0
    for sentence in read_sentences(args.text):
        sentences.append(sentence)
        n_tokens += len(sentence)
        if n_tokens >= args.tokens:
            break
    sentences.sort(key=len)
    print(f"{args.weights or args.size}, {n_tokens:,} tokens")
    print("scale  precision  largest number  min cosine  of a layer  same neighbor")
    for scale in args.scales:
        module = BiLM.from_frozen(make_model(args.size, args.weights))
        with torch.no_grad():
            for name, weight in module.named_parameters():
                if name.startswith("stacks.") and weight.dim() == 2:
                    weight.mul_(scale)
        bilm = module.freeze()
        expected = average_and_layers(bilm, sentences, "float32")
        neighbors = nearest(expected[0])
        for name in LOWER:
            found = average_and_layers(bilm, sentences, name)
            cosines = torch.cosine_similarity(found, expected, dim=2).amin(dim=1)
            same = (nearest(found[0]) == neighbors).double().mean()
            print(
                f"{scale:5g}  {name:9s}  {expected.abs().max():14.2f}  {cosines[0]:10.6f}  "
                f"{cosines.min():10.6f}  {100 * same:12.1f}%",
                flush=True,
            )


if __name__ == "__main__":
    main()
