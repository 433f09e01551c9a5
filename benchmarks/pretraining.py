"""Speed of a pretraining step, compared with a port of bilm-tf and with the machine's limit.

    python benchmarks/pretraining.py --size small --rounds 5 --json small.json

The limit ("ceiling") is the speed of the fastest matrix products on this machine. The load of a
shared machine changes, so everything is measured in short rounds in turn (ceiling, plain, float32,
bf16, then ceiling, bf16, float32, plain, ...). Ratios and shares are computed within a round.
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
    """Model to measure, with its batch size and the amount of text.

    model (dict): Sizes of the biLM.
    max_words (int): Maximum number of words in the vocabulary.
    n_negatives (int): Number of negative samples of the softmax in a step.
    batch_size (int): Number of streams.
    text_tokens (int): Number of tokens of text, enough for the vocabulary.
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
    """Run a step of the package's trainer, and return the loss."""
    return trainer.step()


def our_config(size: Size, batch_size: int, optimizer: str, precision: str) -> PretrainingConfig:
    """Return a config with bilm-tf's settings; optimizers other than Adagrad get a lower rate."""
    training = {
        "batch_size": batch_size,
        "unroll_steps": UNROLL_STEPS,
        "advanced": {"n_negatives": size.n_negatives},
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
    """Build a variant, and return its step. Each worker process calls this.

    name (str): One of `VARIANTS`.
    size (Size): Size of the model.
    batch_size (int): Number of streams.
    args (argparse.Namespace): The command line.
    RETURNS (Callable): A function that runs one update and returns the loss.
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
    """Read the first tokens of a file, or generate random words if the file does not exist.

    RETURNS (Tuple[Corpus, str]): The text, and the name of its source.
    """
    if not path.is_file():
        return read_corpus(random_sentences(n_tokens)), "random words, Zipf's distribution"
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf8") as lines:
        return read_corpus(_first(n_tokens, (line.split() for line in lines))), path.name


def random_sentences(n_tokens: int) -> Iterator[list[str]]:
    """Yield sentences of random words with Zipf's distribution. Frequent words are shorter."""
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
    """Run the rounds, and print a line for each.

    workers (List[Worker]): The variants. Each worker stores its times in `rounds`.
    products (List[tuple]): Sizes of the matrix products for the ceiling.
    args (argparse.Namespace): Number and length of the rounds.
    RETURNS (Dict[str, List[Ceiling]]): The ceilings of all rounds, by dtype.
    """
    wanted = ["float32", "bf16"] if "bf16" in args.variants else ["float32"]
    ceilings: dict[str, list[ceiling.Ceiling]] = {name: [] for name in wanted}
    for number in range(args.rounds):
        for name, found in ceilings.items():
            found.append(ceiling.measure(products, DTYPES[name], args.ceiling_seconds))
        for worker in workers if number % 2 == 0 else workers[::-1]:
            worker.run(args.seconds)
        load = os.getloadavg()[0]  # If it is above `threads`, other programs are running.
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
    """Compute the results of a variant.

    worker (Worker): The variant.
    workers (List[Worker]): All variants.
    ceilings (Dict[str, List[Ceiling]]): The ceilings of all rounds.
    necessary (float): Number of necessary operations per token.
    RETURNS (Dict[str, Any]): The results. Lists have one value per round.
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
    """Compute the results of a variant from its fastest step only.

    It is compared with the fastest steps of the other variants and the highest ceiling of all
    rounds. On a busy machine, these results change less than the medians.
    """
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
    """Measure all variants at one size, print the results, and return them."""
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
        # We assume that a batch of another size needs the same number of operations per token.
        needed = sum(result["necessary_operations"].values()) / counts.tokens
        result["variants"] = {w.name: figures(w, workers, ceilings, needed) for w in workers}
        show_figures(result)
    for worker in workers:
        worker.stop()
    return result


def show_work(name: str, result: dict[str, Any]) -> None:
    """Print the work in a step: counts, necessary operations and size of the gradient."""
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
    """Print the results of a size: medians over the rounds, minimum and maximum in brackets."""
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
    """Describe the machine: CPU, threads and versions."""
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
    """Parse the command line."""
    parser = argparse.ArgumentParser(description="Benchmark of a pretraining step.")
    parser.add_argument("--size", choices=[*SIZES, "both"], default="small")
    parser.add_argument("--variants", default=",".join(VARIANTS), help="Comma-separated variants.")
    parser.add_argument(
        "--rounds", type=int, default=5, help="Number of rounds; 0 only counts operations."
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="Seconds per variant and round.")
    parser.add_argument("--ceiling-seconds", type=float, default=2.0, help="Seconds per round.")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--batch", type=int, default=0, help="Streams; 0: default of the size.")
    parser.add_argument(
        "--plain-batch", type=int, default=0, help="Streams of the port; 0: as --batch."
    )
    parser.add_argument("--optimizer", choices=["adagrad", "adam", "muon"], default="adagrad")
    parser.add_argument("--text", type=Path, default=DEFAULT_TEXT, help="One sentence per line.")
    parser.add_argument(
        "--tokens", type=int, default=0, help="Tokens of text; 0: default of the size."
    )
    parser.add_argument(
        "--profile", type=int, default=0, metavar="STEPS", help="Only profile some steps."
    )
    parser.add_argument("--json", type=Path, help="Output file of the results.")
    args = parser.parse_args()
    args.variants = args.variants.split(",")
    unknown = set(args.variants) - set(VARIANTS)
    if unknown:
        parser.error(f"--variants: unknown {', '.join(sorted(unknown))}. Use {', '.join(VARIANTS)}")
    return args


def main() -> None:
    """Run the benchmark."""
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
