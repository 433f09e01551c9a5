"""How fast a training step is: the package's, beside a plain port of bilm-tf's,
and beside the fastest matrix products that the machine gives.

    python benchmarks/pretraining.py --size small --rounds 5 --json small.json

Everything is measured in one run, in short rounds in turn (ceiling, plain,
float32, bf16, then ceiling, bf16, float32, plain, ...), because a machine that
others use is never the same twice; ratios and shares are taken within a round.
"""

import argparse
import gzip
import json
import os
import platform
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import ceiling
import numpy as np
import operations
import torch
from plain_port import PlainText, PlainTrainer
from thinc.api import Config
from workers import Step, Worker

from spacy_elmo.pretraining.config import PretrainingConfig, check_config
from spacy_elmo.pretraining.trainer import Trainer
from spacy_elmo.text.corpus import Corpus, read_corpus

DEFAULT_TEXT = Path(__file__).resolve().parents[2] / "shared/data/lm/english-open-train.txt.gz"
VARIANTS = ("plain", "float32", "bf16")
DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16}
DEV_TOKENS = 2000
UNROLL_STEPS = 20
FILTERS = [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]]


@dataclass(frozen=True)
class Size:
    """One of the two models, with its batch and the text it needs.

    model (dict): Sizes of the biLM.
    max_words (int): Most words of the vocabulary.
    n_negatives (int): Draws of the softmax in a step.
    batch_size (int): Streams.
    text_tokens (int): Tokens of text, enough for the vocabulary.
    """

    model: dict[str, Any]
    max_words: int
    n_negatives: int
    batch_size: int
    text_tokens: int


SIZES = {
    "small": Size(
        {"lstm_dim": 512, "projection_dim": 128, "filters": FILTERS[:5], "n_highway": 1},
        max_words=30_000,
        n_negatives=4096,
        batch_size=128,
        text_tokens=2_000_000,
    ),
    "original": Size(
        {"lstm_dim": 4096, "projection_dim": 512, "filters": FILTERS, "n_highway": 2},
        max_words=100_000,
        n_negatives=8192,
        batch_size=32,
        text_tokens=4_000_000,
    ),
}


def our_step(trainer: Trainer) -> float:
    """The one place that knows how the package's step is called."""
    return trainer.step()


def our_config(size: Size, batch_size: int, optimizer: str, precision: str) -> PretrainingConfig:
    """RETURNS (PretrainingConfig): bilm-tf's settings of this size; Adam at its own rate."""
    training = {
        "batch_size": batch_size,
        "unroll_steps": UNROLL_STEPS,
        "n_negatives": size.n_negatives,
        "optimizer": optimizer,
        "learn_rate": 0.2 if optimizer == "adagrad" else 0.002,
        "decay": "none",
        "precision": precision,
    }
    sections = {
        "model": size.model,
        "corpus": {"train": "benchmark", "dev": "benchmark"},
        "vocabulary": {"min_count": 1, "max_size": size.max_words},
        "training": training,
    }
    return check_config(Config(sections), "the benchmark's config")


def make_step(name: str, size: Size, batch_size: int, args: argparse.Namespace) -> Step:
    """Build a variant; a worker calls it.

    name (str): One of `VARIANTS`.
    size (Size): Of the model.
    batch_size (int): Streams.
    args (argparse.Namespace): The command line.
    RETURNS (Callable): One update.
    """
    torch.manual_seed(0)
    corpus, _ = read_text(args.text, args.tokens or size.text_tokens)
    if name != "plain":
        config = our_config(size, batch_size, args.optimizer, name)
        dev = read_corpus(_first(DEV_TOKENS, _sentences(corpus)))
        trainer = Trainer(config, corpus, dev)
        return lambda: our_step(trainer)
    plain = PlainTrainer(
        our_config(size, batch_size, args.optimizer, "float32").bilm,
        corpus,
        n_words=size.max_words,
        n_negatives=size.n_negatives,
        batch_size=batch_size,
        unroll_steps=UNROLL_STEPS,
    )
    return plain.step


def read_text(path: Path, n_tokens: int) -> tuple[Corpus, str]:
    """RETURNS (Tuple[Corpus, str]): So many tokens of the file, and where they are
    from; without a file, words drawn at random."""
    if not path.is_file():
        return read_corpus(random_sentences(n_tokens)), "random words, Zipf's distribution"
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf8") as lines:
        return read_corpus(_first(n_tokens, (line.split() for line in lines))), path.name


def random_sentences(n_tokens: int) -> Iterator[list[str]]:
    """YIELDS (List[str]): Sentences of made-up words, the more frequent the shorter."""
    rng, n_words = np.random.default_rng(0), 400_000
    ranks = np.arange(n_words)
    lengths = rng.normal(2 + 1.2 * np.log10(ranks + 1), 1.5).round().clip(1, 30).astype(int)
    letters = np.array(list("etaoinshrdlcumwfgypbvk"))
    spelling = "".join(letters[(rng.random(lengths.sum()) ** 1.5 * len(letters)).astype(int)])
    words = [spelling[end - n : end] for n, end in zip(lengths, lengths.cumsum())]
    shares = 1 / (ranks + 2.7)
    drawn = rng.choice(n_words, n_tokens, p=shares / shares.sum())
    bounds = rng.poisson(21, n_tokens // 20).cumsum()
    for part in np.split(drawn, bounds[bounds < n_tokens]):
        yield [words[i] for i in part]


def measure(
    workers: list[Worker], products: list[tuple], args: argparse.Namespace
) -> dict[str, list[ceiling.Ceiling]]:
    """Run the rounds.

    workers (List[Worker]): What to time; they keep their times.
    products (List[tuple]): The sizes of the ceiling's products.
    args (argparse.Namespace): How many rounds, how long.
    RETURNS (Dict[str, List[Ceiling]]): The ceilings of every round.
    """
    wanted = ["float32", "bf16"] if "bf16" in args.variants else ["float32"]
    ceilings: dict[str, list[ceiling.Ceiling]] = {name: [] for name in wanted}
    for number in range(args.rounds):
        for name, found in ceilings.items():
            found.append(ceiling.measure(products, DTYPES[name], args.ceiling_seconds))
        for worker in workers if number % 2 == 0 else workers[::-1]:
            worker.run(args.seconds)
        load = os.getloadavg()[0]  # of the last minute: above `threads`, others are at work
        times = [f"{worker.name} {1000 * worker.rounds[-1].seconds:.0f} ms" for worker in workers]
        rates = [f"{name} {found[-1].gflops:.0f}" for name, found in ceilings.items()]
        print(
            f"  round {number + 1}: {', '.join(times)}; GFLOP/s: {', '.join(rates)}; "
            f"load {load:.1f}",
            flush=True,
        )
    return ceilings


def figures(
    worker: Worker,
    workers: list[Worker],
    ceilings: dict[str, list[ceiling.Ceiling]],
    necessary: float,
) -> dict[str, Any]:
    """
    worker (Worker): The variant to report.
    workers (List[Worker]): All of them.
    ceilings (Dict[str, List[Ceiling]]): Of every round.
    necessary (float): Operations that a token needs.
    RETURNS (Dict[str, Any]): What is reported; every list is by round.
    """
    rates = _rates(worker)
    gflops = [1e-9 * necessary * rate for rate in rates]
    result: dict[str, Any] = {
        "tokens_per_step": worker.tokens,
        "n_steps": sum(done.n_steps for done in worker.rounds),
        "final_loss": worker.rounds[-1].loss,
        "peak_memory": worker.rounds[-1].peak_memory,
        "ms_per_step": [1000 * done.seconds for done in worker.rounds],
        "tokens_per_second": rates,
        "necessary_gflops": gflops,
    }
    for name, found in ceilings.items():
        result[f"share_of_{name}_ceiling"] = [r / c.gflops for r, c in zip(gflops, found)]
    for other in workers:
        if other is not worker:
            result[f"ratio_to_{other.name}"] = [a / b for a, b in zip(rates, _rates(other))]
    result["fastest"] = fastest(worker, workers, ceilings, necessary)
    return result


def fastest(
    worker: Worker,
    workers: list[Worker],
    ceilings: dict[str, list[ceiling.Ceiling]],
    necessary: float,
) -> dict[str, float]:
    """As `figures`, for the fastest step, beside the others' fastest and the highest
    ceiling of all rounds: what is left where other work disturbs most of them."""
    rate = _fastest_rate(worker)
    result = {"ms_per_step": 1000 * worker.tokens / rate, "tokens_per_second": rate}
    for name, found in ceilings.items():
        highest = max(c.gflops for c in found)
        result[f"share_of_{name}_ceiling"] = 1e-9 * necessary * rate / highest
    for other in workers:
        if other is not worker:
            result[f"ratio_to_{other.name}"] = rate / _fastest_rate(other)
    return result


def benchmark(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """RETURNS (Dict[str, Any]): Everything that was measured at one size."""
    size = SIZES[name]
    batch_size = args.batch or size.batch_size
    corpus, source = read_text(args.text, args.tokens or size.text_tokens)
    sizes = our_config(size, batch_size, args.optimizer, "float32").bilm
    text = PlainText(corpus, batch_size=batch_size, unroll_steps=UNROLL_STEPS)
    counts = operations.count(
        text, corpus, sizes, max_words=size.max_words, n_negatives=size.n_negatives
    )
    result: dict[str, Any] = {
        "batch_size": batch_size,
        "text": source,
        "text_tokens": corpus.n_words,
        "counts": asdict(counts),
        "necessary_operations": operations.necessary_operations(sizes, counts),
        "gradient_bytes": operations.gradient_bytes(sizes, counts),
    }
    show_work(name, result)
    if not args.rounds:
        return result
    workers = []
    for variant in args.variants:
        streams = args.plain_batch if variant == "plain" and args.plain_batch else batch_size
        arguments = (variant, size, streams, args)
        workers.append(Worker(variant, streams * UNROLL_STEPS, make_step, arguments, args.threads))
    for worker in workers:
        worker.start()
    if args.profile:
        for worker in workers:
            print(f"  {worker.name}\n{worker.profile(args.profile)}", flush=True)
    else:
        products = ceiling.shapes(sizes, counts.tokens, batch_size, round(counts.negatives))
        ceilings = measure(workers, products, args)
        result["ceilings"] = {k: [asdict(c) for c in found] for k, found in ceilings.items()}
        # A batch of another size is taken to need as much for each of its tokens.
        needed = sum(result["necessary_operations"].values()) / counts.tokens
        result["variants"] = {w.name: figures(w, workers, ceilings, needed) for w in workers}
        show_figures(result)
    for worker in workers:
        worker.stop()
    return result


def show_work(name: str, result: dict[str, Any]) -> None:
    """Print what a step has to do."""
    counts, parts = result["counts"], result["necessary_operations"]
    total = sum(parts.values())
    shares = ", ".join(f"{part} {n / total:.0%}" for part, n in parts.items())
    sent = ", ".join(f"{part} {n / 1e6:.1f} MB" for part, n in result["gradient_bytes"].items())
    print(
        f"{name}: {result['batch_size']} x {UNROLL_STEPS} tokens of {result['text']} "
        f"({result['text_tokens']} tokens), {counts['n_words']} words\n"
        f"  a step reads {counts['types']:.0f} types of {counts['positions']:.1f} characters, "
        f"predicts {counts['target_words']:.0f} words against {counts['negatives']:.0f}, "
        f"{counts['touched_rows']:.0f} together\n"
        f"  needs {total / 1e9:.2f} GFLOP: {shares}\n"
        f"  gradient: {sent}",
        flush=True,
    )


def show_figures(result: dict[str, Any]) -> None:
    """Print a size's figures: medians over the rounds, least and most in brackets."""
    for name, found in result["ceilings"].items():
        best = max(found, key=lambda c: c["gflops"])
        rates = _spread([c["gflops"] for c in found], "{:.0f}")
        print(f"  ceiling {name}: {rates} GFLOP/s (best: {best['product']})")
    for name, row in result["variants"].items():
        memory = f"{row['peak_memory'] / 1e9:.1f} GB"
        print(f"  {name}: {row['tokens_per_step']} tokens a step, {row['n_steps']} steps, {memory}")
        print(f"    {'':<26}{'rounds: median (least to most)':<34}fastest step")
        for key, values in row.items():
            if isinstance(values, list):
                form = "{:.3f}" if key.startswith("share") else "{:.1f}"
                form = "{:.2f}" if key.startswith("ratio") else form
                once = form.format(row["fastest"][key]) if key in row["fastest"] else ""
                print(f"    {key:<26}{_spread(values, form):<34}{once}")


def machine(threads: int) -> dict[str, Any]:
    """RETURNS (Dict[str, Any]): Where it was measured."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        names = [line for line in info.read_text().splitlines() if line.startswith("model name")]
        cpu = names[0].split(":", 1)[1].strip() if names else cpu
    return {
        "cpu": cpu,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "threads": threads,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def parse() -> argparse.Namespace:
    """RETURNS (argparse.Namespace): The command line."""
    parser = argparse.ArgumentParser(description="Benchmark of a pretraining step.")
    parser.add_argument("--size", choices=[*SIZES, "both"], default="small")
    parser.add_argument("--variants", default=",".join(VARIANTS), help="Some of the default.")
    parser.add_argument("--rounds", type=int, default=5, help="0 only counts operations.")
    parser.add_argument("--seconds", type=float, default=5.0, help="Of a variant in a round.")
    parser.add_argument("--ceiling-seconds", type=float, default=2.0, help="In a round.")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--batch", type=int, default=0, help="Streams; 0: the size's own.")
    parser.add_argument("--plain-batch", type=int, default=0, help="Of the port; 0: the same.")
    parser.add_argument("--optimizer", choices=["adagrad", "adam", "muon"], default="adagrad")
    parser.add_argument("--text", type=Path, default=DEFAULT_TEXT, help="A sentence a line.")
    parser.add_argument("--tokens", type=int, default=0, help="Of text; 0: as the size needs.")
    parser.add_argument("--profile", type=int, default=0, metavar="STEPS", help="Do only this.")
    parser.add_argument("--json", type=Path, help="Write all figures of all rounds here.")
    args = parser.parse_args()
    args.variants = args.variants.split(",")
    unknown = set(args.variants) - set(VARIANTS)
    if unknown:
        parser.error(f"--variants: {', '.join(sorted(unknown))}: not of {', '.join(VARIANTS)}")
    return args


def main() -> None:
    """Measure, print, and write the JSON."""
    args = parse()
    torch.set_num_threads(args.threads)
    report: dict[str, Any] = {"machine": machine(args.threads), "sizes": {}}
    print(", ".join(f"{key} {value}" for key, value in report["machine"].items()), flush=True)
    for name in SIZES if args.size == "both" else [args.size]:
        report["sizes"][name] = benchmark(name, args)
        if args.json:
            args.json.write_text(json.dumps(report, indent=1) + "\n", "utf8")


def _rates(worker: Worker) -> list[float]:
    return [worker.tokens / done.seconds for done in worker.rounds]


def _fastest_rate(worker: Worker) -> float:
    return worker.tokens / min(done.fastest for done in worker.rounds)


def _first(n_tokens: int, sentences: Iterable[list[str]]) -> Iterator[list[str]]:
    read = 0
    for sentence in sentences:
        if read >= n_tokens:
            return
        read += len(sentence)
        yield sentence


def _sentences(corpus: Corpus) -> Iterator[list[str]]:
    for start, end in zip(corpus.starts, [*corpus.starts[1:], len(corpus.tokens)]):
        yield [corpus.types[i] for i in corpus.tokens[start + 1 : end]]


def _spread(values: list[float], form: str) -> str:
    low, middle, high = (form.format(f(values)) for f in (min, statistics.median, max))
    return f"{middle} ({low} to {high})"


if __name__ == "__main__":
    main()
