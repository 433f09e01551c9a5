"""Training of CoVe's encoder on pairs of sentences."""

import math
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import numpy as np
import torch

from ..files import check_regular, progress_bar, user_path
from ..files.terminal import msg
from ..frozen.vocabulary import Vocabulary
from ..weights.cove import WordVectors, new_cove
from ..weights.safetensors_file import write
from .translation import TranslationModel

POOL = 50  # batches that are drawn together, and cut by length
LARGEST_GRADIENT = 5.0


class Pair(NamedTuple):
    """A sentence and its translation, as tokens."""

    source: list[str]
    target: list[str]


class TranslationSettings(NamedTuple):
    """How the encoder is trained.

    minutes (float): How long, by the clock; the pass in which they end is not finished.
    batch_size (int): Pairs of a step.
    learn_rate (float): Adam's.
    min_count (int): Least count of a word of the translations.
    max_size (int): Most of them.
    seed (int): Of all draws.
    max_epochs (int): Most passes over the pairs; 0 for no bound.
    """

    minutes: float = 60.0
    batch_size: int = 64
    learn_rate: float = 0.001
    min_count: int = 2
    max_size: int = 30_000
    seed: int = 0
    max_epochs: int = 0


def read_pairs(path: Path) -> list[Pair]:
    """Read pairs of sentences: a pair a line, a tab between the two, tokens separated by spaces.

    path (Path): The file, UTF-8.
    RETURNS (List[Pair]): The pairs.
    RAISES (ValueError): A line is no pair, or there is none.
    """
    path = user_path(path)
    check_regular(path)
    pairs = []
    with path.open(encoding="utf-8-sig") as file:
        try:
            for number, line in enumerate(file, 1):
                halves = [half.split() for half in line.rstrip("\n").split("\t")]
                if len(halves) != 2 or not all(halves):
                    raise ValueError(
                        f"{path}:{number}: expected a sentence, a tab and its translation, "
                        f"found {line.strip()[:80]!r}"
                    )
                pairs.append(Pair(*halves))
        except UnicodeDecodeError:
            raise ValueError(f"{path} is not UTF-8") from None
    if not pairs:
        raise ValueError(f"{path} holds no pair of sentences")
    return pairs


def train_cove(
    pairs: Sequence[Pair],
    dev: Sequence[Pair],
    vectors: WordVectors,
    output: Path,
    settings: TranslationSettings = TranslationSettings(),
) -> TranslationModel:
    """Train a translation model, and write its encoder whenever a pass over the pairs made it
    better. Ctrl-C loses what came after the last pass.

    pairs (Sequence[Pair]): What is learned from.
    dev (Sequence[Pair]): Others, by which the best is chosen.
    vectors (WordVectors): Vectors of the first language's words, which stay as they are.
    output (Path): The `.safetensors` file of the encoder.
    settings (TranslationSettings): How it is trained.
    RETURNS (TranslationModel): The model as it was last.
    RAISES (ValueError): There was no time, or the loss or each perplexity was not finite.
    """
    if settings.minutes <= 0:
        raise ValueError(f"minutes must be above 0, got {settings.minutes}")
    torch.manual_seed(settings.seed)
    counts = Counter(word for pair in pairs for word in pair.target)
    words, numbers = list(counts), np.array(list(counts.values()))
    vocabulary = Vocabulary.from_counts(
        words, numbers, min_count=settings.min_count, max_size=settings.max_size
    )
    model = TranslationModel(new_cove(vectors), vocabulary)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=settings.learn_rate)
    draw, best, epoch = random.Random(settings.seed), math.inf, 0
    ends = monotonic() + 60.0 * settings.minutes
    while monotonic() < ends and not 0 < settings.max_epochs <= epoch:
        epoch += 1
        with progress_bar(len(pairs), f"epoch {epoch}", "pairs") as bar:
            for batch in batches(pairs, settings.batch_size, draw):
                loss = step(model, optimizer, batch)
                if not math.isfinite(loss):
                    raise ValueError(
                        f"the loss became {loss} in epoch {epoch}: lower learn_rate "
                        f"({settings.learn_rate})"
                    )
                bar.update(len(batch))
                if monotonic() >= ends:
                    break
        found = perplexity(model, dev, settings.batch_size)
        msg.info(f"Epoch {epoch}: perplexity of the held-out translations {found:,.2f}")
        if found < best:
            best = found
            model.encoder.provenance = {
                "training": "translation",
                "pairs": len(pairs),
                "epochs": epoch,
                "perplexity": round(found, 4),
            }
            write(model.encoder, output)
    if best == math.inf:
        raise ValueError(
            f"the perplexity was infinite after each epoch: lower learn_rate "
            f"({settings.learn_rate})"
        )
    return model


def step(model: TranslationModel, optimizer: torch.optim.Optimizer, batch: Sequence[Pair]) -> float:
    """Learn from a batch.

    model (TranslationModel): The model.
    optimizer (torch.optim.Optimizer): Its optimizer.
    batch (Sequence[Pair]): The pairs.
    RETURNS (float): The loss, in nats a word.
    """
    model.train()
    optimizer.zero_grad()
    loss = model(*zip(*batch)) / _n_words(batch)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), LARGEST_GRADIENT)
    optimizer.step()
    return float(loss.detach())


@torch.no_grad()
def perplexity(model: TranslationModel, pairs: Sequence[Pair], batch_size: int) -> float:
    """RETURNS (float): Perplexity of translations, `</S>` among their words."""
    model.eval()
    parts = [pairs[start : start + batch_size] for start in range(0, len(pairs), batch_size)]
    total = sum(float(model(*zip(*part))) for part in parts)
    loss = total / _n_words(pairs)
    return math.exp(loss) if loss < 700.0 else math.inf  # beyond which there is no float


def batches(pairs: Sequence[Pair], size: int, draw: random.Random) -> Iterator[list[Pair]]:
    """Yield all pairs once, in batches of about the same length.

    pairs (Sequence[Pair]): The pairs.
    size (int): Pairs of a batch.
    draw (random.Random): Says in which order.
    YIELDS (List[Pair]): A batch.
    """
    order = draw.sample(range(len(pairs)), len(pairs))
    for start in range(0, len(order), POOL * size):
        pool = sorted(order[start : start + POOL * size], key=lambda i: len(pairs[i].source))
        cut = [pool[first : first + size] for first in range(0, len(pool), size)]
        draw.shuffle(cut)
        yield from ([pairs[i] for i in chosen] for chosen in cut)


def _n_words(batch: Sequence[Pair]) -> int:
    return sum(len(pair.target) + 1 for pair in batch)
