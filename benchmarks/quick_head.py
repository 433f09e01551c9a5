"""Entity F of a small head on frozen layers: how much a language model knows about names.

    python benchmarks/quick_head.py en_small project/pretraining/trial/model-best --seeds 0 1

The layers of all sentences are computed once. Then a head takes less than a minute per corpus and
seed. It is smaller than the project's NER, so compare its scores only with each other. Perplexity
cannot take its place, because it changes with the vocabulary.

The head: a layer norm for each layer, the mix (Peters et al. 2018, equation 1), dropout 0.5, a
linear layer of 128, two residual blocks with a window of three tokens, and a softmax over BIO tags,
decoded by Viterbi. It trains for 600 steps; the best of 12 evaluations on the dev set counts. The
same evaluation also reads the dev set in lower case. On the test set, it also counts the entities
that are in lower case there, as "found in lower case".
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Optional

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spacy_elmo.tasks.shared.bio import BIOTags, parse_bio
from spacy_elmo.weights import read_weights

STEPS, EVALUATIONS, BATCH = 600, 12, 32
WIDTH, DROPOUT, LEARN_RATE = 128, 0.5, 2e-3
# Sentences per call of the language model. This limits the memory.
CHUNK = 256


class Sentence(NamedTuple):
    """Sentence with its entities.

    tokens (List[str]): The tokens.
    spans (List[Tuple[int, int, str]]): First token, the token after the last one, label.
    """

    tokens: list[str]
    spans: list[tuple[int, int, str]]


@dataclass(frozen=True)
class Data:
    """Training sentences of a corpus, and sentences for evaluation by name."""

    train: list[Sentence]
    dev: dict[str, list[Sentence]]

    @property
    def labels(self) -> list[str]:
        """Labels of the training sentences, sorted."""
        return sorted({label for sentence in self.train for *_, label in sentence.spans})


def read_sentences(path: Path, token: int = 0, tag: int = 1) -> list[Sentence]:
    """Read sentences from lines of columns, separated by tabs.

    path (Path): The file. Empty lines separate sentences; lines that begin with "# " are comments.
    token (int): Column of the token.
    tag (int): Column of the BIO tag. Labels OTH and O are ignored.
    """
    sentences, rows = [], []
    for line in [*path.read_text("utf8").split("\n"), ""]:
        columns = line.split("\t")
        if not line.strip():
            if rows:
                tokens, tags = map(list, zip(*rows))
                sentences.append(Sentence(tokens, parse_bio(tags)))
            rows = []
        elif not line.startswith("# ") or len(columns) > 1:
            label = columns[tag].strip()
            rows.append((columns[token], "O" if label[2:] in ("OTH", "O") else label))
    return sentences


def read_corpus(name: str, folder: Path, *, has_test: bool) -> Data:
    """Read one of the corpora "wnut17", "uner_ewt" and "btc".

    The dev set of the Broad Twitter Corpus is the second half of its section h.
    """
    files = folder / name
    test: list[Sentence] = []
    if name == "wnut17":
        train = read_sentences(files / "wnut17train.conll")
        dev = read_sentences(files / "emerging.dev.conll")
        if has_test:
            test = read_sentences(files / "emerging.test.annotated")
    elif name == "uner_ewt":
        train, dev = (
            read_sentences(files / f"en_ewt-ud-{part}.iob2", 1, 2) for part in ("train", "dev")
        )
        if has_test:
            test = read_sentences(files / "en_ewt-ud-test.iob2", 1, 2)
    else:
        last = read_sentences(files / "h.conll")
        half = len(last) // 2
        train = [each for part in "abeg" for each in read_sentences(files / f"{part}.conll")]
        train, dev = [*train, *last[:half]], last[half:]
    sets = {"dev": dev, **({"test": test} if test else {})}
    lower = {f"{part}, lower case": list(map(in_lower_case, found)) for part, found in sets.items()}
    return Data(train, {**sets, **lower})


def in_lower_case(sentence: Sentence) -> Sentence:
    """Return the sentence with all letters in lower case."""
    return Sentence([token.lower() for token in sentence.tokens], sentence.spans)


class Features:
    """Frozen layers of a language model, and optionally the static vectors of a file.

    name (str): The language model.
    static (Optional[Path]): Numpy archive with `words` and `vectors`, as a further layer.
    """

    def __init__(self, name: str, static: Optional[Path] = None):
        self.bilm = read_weights(name)
        self.rows: dict[str, int] = {}
        if static is not None:
            with np.load(static) as found:
                self.rows = {word: i for i, word in enumerate(found["words"].tolist())}
                self.vectors = found["vectors"].astype("float32")

    def __call__(self, sentences: Sequence[Sentence]) -> list[np.ndarray]:
        """Compute the layers of each sentence, in float16. *Shape:* `(L + 1, n_tokens, 2P)`."""
        layers: list[np.ndarray] = []
        for start in range(0, len(sentences), CHUNK):
            chunk = [each.tokens for each in sentences[start : start + CHUNK]]
            found, _ = self.bilm.embed(chunk, "warm")
            layers += [each.astype("float16") for each in found]
        return layers

    def static(self, sentences: Sequence[Sentence]) -> list[np.ndarray]:
        """Look up the static vectors of each sentence. *Shape:* `(n_tokens, width)`."""
        zero = np.zeros_like(self.vectors[0])
        return [
            np.stack([self.vectors[self.rows[t]] if t in self.rows else zero for t in each.tokens])
            for each in sentences
        ]


class ResidualBlock(nn.Module):
    """Convolution over three tokens with a residual connection and a layer norm."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """Apply the block. Padding stays zero. *Shape:* `(n, T, WIDTH)`."""
        found = self.convolution((inputs * mask).transpose(1, 2)).transpose(1, 2)
        return self.norm(inputs + F.dropout(F.relu(found), 0.1, self.training))


class Head(nn.Module):
    """Tagger on frozen layers."""

    def __init__(self, n_layers: int, width: int, n_static: int, n_tags: int):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(n_layers))
        self.weights, self.gamma = nn.Parameter(torch.zeros(n_layers)), nn.Parameter(torch.ones(()))
        self.static_norm = nn.LayerNorm(n_static) if n_static else None
        self.linear = nn.Linear(width + n_static, WIDTH)
        self.blocks = nn.ModuleList(ResidualBlock() for _ in range(2))
        self.output = nn.Linear(WIDTH, n_tags)

    def forward(self, layers: Tensor, static: Optional[Tensor], mask: Tensor) -> Tensor:
        """Return the scores of all tags.

        layers (Tensor): *Shape:* `(L + 1, n, T, 2P)`
        static (Optional[Tensor]): *Shape:* `(n, T, width)`
        mask (Tensor): 1 at tokens, 0 at padding. *Shape:* `(n, T, 1)`
        RETURNS (Tensor): *Shape:* `(n, T, n_tags)`
        """
        weights = self.gamma * self.weights.softmax(dim=0)
        mixed = sum(w * norm(each) for w, norm, each in zip(weights, self.norms, layers))
        if self.static_norm is not None:
            mixed = torch.cat([mixed, self.static_norm(static)], dim=2)
        hidden = F.relu(self.linear(F.dropout(mixed, DROPOUT, self.training)))
        for block in self.blocks:
            hidden = block(hidden, mask)
        return self.output(F.dropout(hidden, DROPOUT, self.training))


class Part(NamedTuple):
    """Sentences with their features."""

    sentences: list[Sentence]
    layers: list[np.ndarray]
    static: Optional[list[np.ndarray]]

    def batch(self, rows: Sequence[int]) -> tuple[Tensor, Optional[Tensor], Tensor]:
        """Return the padded inputs of `Head.forward` for some sentences."""
        longest = max(len(self.sentences[i].tokens) for i in rows)
        n_layers, _, width = self.layers[0].shape
        layers = torch.zeros(n_layers, len(rows), longest, width)
        mask = torch.zeros(len(rows), longest, 1)
        static = None
        if self.static is not None:
            static = torch.zeros(len(rows), longest, self.static[0].shape[1])
        for at, i in enumerate(rows):
            length = self.layers[i].shape[1]
            layers[:, at, :length] = torch.from_numpy(self.layers[i].astype("float32"))
            mask[at, :length] = 1.0
            if static is not None and self.static is not None:
                static[at, :length] = torch.from_numpy(self.static[i])
        return layers, static, mask


def train(data: dict[str, Part], labels: Sequence[str], seed: int) -> dict[str, float]:
    """Train a head, and return the F of each set at the evaluation that is best on "dev"."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    tags, part = BIOTags(labels), data["train"]
    n_layers, _, width = part.layers[0].shape
    head = Head(n_layers, width, part.static[0].shape[1] if part.static else 0, len(tags))
    optimizer = torch.optim.AdamW(head.parameters(), lr=LEARN_RATE, weight_decay=0.01)
    gold = [tags.encode_spans(each.spans, len(each.tokens)) for each in part.sentences]
    order, best = _batches(len(gold), rng), {"dev": -1.0}
    for step in range(STEPS):
        rows = next(order)
        head.train()
        scores = head(*part.batch(rows))
        wanted = torch.full(scores.shape[:2], -100)
        for at, i in enumerate(rows):
            wanted[at, : len(gold[i])] = torch.from_numpy(gold[i])
        optimizer.param_groups[0]["lr"] = LEARN_RATE * (1.0 - step / STEPS)
        optimizer.zero_grad()
        F.cross_entropy(scores.flatten(0, 1), wanted.flatten()).backward()
        optimizer.step()
        if (step + 1) % (STEPS // EVALUATIONS) == 0:
            f, _ = score(head, data["dev"], tags)
            if f > best["dev"]:
                others = [name for name in data if name not in ("train", "dev")]
                found = {name: score(head, data[name], tags) for name in others}
                best = {"dev": f, **{name: f for name, (f, _) in found.items()}}
                if "test" in found:
                    best["test, found in lower case"] = found["test"][1]
    return best


def _batches(n: int, rng: np.random.Generator) -> Iterator[Sequence[int]]:
    while True:
        order = rng.permutation(n)
        for start in range(0, n - BATCH + 1, BATCH):
            yield order[start : start + BATCH].tolist()


@torch.no_grad()
def score(head: Head, part: Part, tags: BIOTags) -> tuple[float, float]:
    """Return the entity F of a head, and the recall of entities in lower case, in percent."""
    head.eval()
    hits = found = wanted = lower_hits = lower_wanted = 0
    by_length = sorted(range(len(part.sentences)), key=lambda i: len(part.sentences[i].tokens))
    for start in range(0, len(by_length), 128):
        rows = by_length[start : start + 128]
        scores = head(*part.batch(rows)).log_softmax(dim=2).numpy()
        for at, i in enumerate(rows):
            tokens, gold = part.sentences[i].tokens, set(part.sentences[i].spans)
            n_tokens = len(tokens)
            spans = set(tags.spans(tags.decode(scores[at, :n_tokens]).tolist()))
            hits, found, wanted = hits + len(gold & spans), found + len(spans), wanted + len(gold)
            lower = {span for span in gold if " ".join(tokens[span[0] : span[1]]).islower()}
            lower_hits, lower_wanted = lower_hits + len(lower & spans), lower_wanted + len(lower)
    return 200.0 * hits / max(1, found + wanted), 100.0 * lower_hits / max(1, lower_wanted)


def main() -> None:
    """Print a line of JSON for each model, corpus and seed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("models", nargs="+", help="language models")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ner"))
    parser.add_argument("--corpora", nargs="+", default=["wnut17", "uner_ewt", "btc"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--static", type=Path, help="numpy archive with `words` and `vectors`")
    parser.add_argument("--test", action="store_true", help="score the test sets, too")
    options = parser.parse_args()
    for model in options.models:
        features = Features(model, options.static)
        for corpus in options.corpora:
            data = read_corpus(corpus, options.data, has_test=options.test)
            parts = {
                name: Part(
                    sentences,
                    features(sentences),
                    features.static(sentences) if options.static else None,
                )
                for name, sentences in {"train": data.train, **data.dev}.items()
            }
            for seed in options.seeds:
                began = time.process_time()
                found = train(parts, data.labels, seed)
                line = {"model": model, "static": bool(options.static), "corpus": corpus}
                figures = {name: round(f, 2) for name, f in found.items()}
                seconds = round(time.process_time() - began, 1)
                print(json.dumps({**line, "seed": seed, **figures, "seconds": seconds}))
                sys.stdout.flush()


if __name__ == "__main__":
    main()
