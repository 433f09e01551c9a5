"""Speed of the question component's GRU in training on one core, compared with PyTorch's.

    python benchmarks/recurrent.py

Both take turns with the same parameters and inputs. The script prints median processor times, and
the minimum and maximum ratio of a turn.
"""

import argparse
import random
import statistics
from collections.abc import Callable
from functools import partial

import torch
from embed import timed
from torch import Tensor

from spacy_elmo.tasks.shared.recurrent import BidirectionalRNN, pad

# Number of sequences, minimum and maximum number of tokens, width of input and output.
SHAPES = {
    "contexts of questions": (12, 130, 160, 384, 100),
    "contexts, merged": (12, 130, 160, 100, 100),
    "sentences, [x ; ELMo]": (60, 10, 60, 384, 200),
    "pairs, [x ; ELMo]": (60, 8, 16, 384, 200),
    "one long text": (1, 1000, 1000, 384, 200),
}


def compare(shape: tuple[int, int, int, int, int], rounds: int) -> str:
    n_sequences, fewest, most, nI, nO = shape
    lengths = [random.randint(fewest, most) for _ in range(n_sequences)]
    x, mask = pad([torch.randn(length, nI) for length in lengths])
    layer = BidirectionalRNN(nI, nO, "gru")

    def train(run: Callable[[Tensor, Tensor], Tensor]) -> None:
        run(x.requires_grad_(), mask).sum().backward()

    seconds: list[list[float]] = [[], []]
    for _ in range(rounds + 1):
        for times, run in zip(seconds, (layer.run_of_pytorch, layer)):
            times.append(timed(partial(train, run)))
    theirs, ours = (times[1:] for times in seconds)
    ratios = [a / b for a, b in zip(theirs, ours)]
    return (
        f"{statistics.median(theirs) * 1e3:.1f} to {statistics.median(ours) * 1e3:.1f} ms, "
        f"{statistics.median(ratios):.2f} times ({min(ratios):.2f} to {max(ratios):.2f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    random.seed(0)
    for name, shape in SHAPES.items():
        print(f"{name}: {compare(shape, args.rounds)}", flush=True)


if __name__ == "__main__":
    main()
