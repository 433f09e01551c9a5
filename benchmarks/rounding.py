"""How near the vectors of lower precisions are to those of float32, on any processor.

    python benchmarks/rounding.py TEXT --weights en_small --scales 1 2 4
    python benchmarks/rounding.py TEXT --size original --tokens 2000

The products of integers are computed exactly, in float64, in place of the operation that only
some processors have; those of bfloat16 by PyTorch, fast or not. The scales multiply all matrices
of the LSTMs, for weights larger than those of the model. The cosines are of a token's average of
layers, and of the layer that changes most; neighbors are the nearest other token among the first
1,500, by that average. TEXT is as for inference.py; its sentences run 32 at a time.
"""

import argparse
from pathlib import Path

import torch
from language_models import SIZES, make_model, read_sentences
from torch import Tensor
from torch.nn.functional import normalize

from spacy_elmo.bilm import precision, prepacked
from spacy_elmo.bilm.model import BiLM

LOWER = ("bfloat16", "int8")
BATCH = 32
NEIGHBORS = 1500


class ExactInt8Product(prepacked._Int8Product):
    """The same rounding of weights and inputs, and sums without any."""

    def __init__(self, weight: Tensor, bias: Tensor | None):
        self.scales = weight.abs().amax(dim=1).clamp(min=1e-30) / prepacked._LARGEST
        self.integers = (weight / self.scales.unsqueeze(1)).round().double()
        self.bias = bias

    def _multiply(self, integers: Tensor) -> Tensor:
        signed = integers.double() - prepacked._ZERO_POINT
        return (signed @ self.integers.t() * self.scales).float()


def average_and_layers(bilm: BiLM, sentences: list[list[str]], name: str) -> Tensor:
    """RETURNS (Tensor): *Shape:* `(1 + n_layers + 1, n_tokens, width)`"""
    bilm.precision = name
    bilm.cache.clear()
    batches = [sentences[i : i + BATCH] for i in range(0, len(sentences), BATCH)]
    with torch.no_grad():
        parts = [torch.cat(bilm.embed(batch)[0], dim=1) for batch in batches]
    layers = torch.cat(parts, dim=1).double()
    return torch.cat([layers.mean(dim=0, keepdim=True), layers])


def nearest(vectors: Tensor) -> Tensor:
    """RETURNS (Tensor): The nearest other token of each of the first."""
    unit = normalize(vectors[:NEIGHBORS])
    return (unit @ unit.t()).fill_diagonal_(-1.0).argmax(dim=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", type=Path)
    parser.add_argument("--size", choices=SIZES, default="default")
    parser.add_argument("--weights", help="in place of random weights of the size")
    parser.add_argument("--scales", type=float, nargs="+", default=[1.0])
    parser.add_argument("--tokens", type=int, default=8000)
    args = parser.parse_args()
    precision._is_available = lambda name, device: name in ("float32", *LOWER)
    prepacked._Int8Product = ExactInt8Product
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
        bilm = make_model(args.size, args.weights)
        with torch.no_grad():
            for name, weight in bilm.named_parameters():
                if name.startswith("stacks.") and weight.dim() == 2:
                    weight.mul_(scale)
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
