"""Broken and hostile weight files, by the thousand: `make fuzz`.

They are read in a process that is watched. Reading gives a model or a ValueError that names
the file, in under two seconds and 200 MB, imports nothing and does not take the process with
it; where names, shapes or sizes were changed, or an end is missing, it gives the error. Every
fiftieth file has a structure that grew a thousandfold and more: those are all refused.
"""

import argparse
import contextlib
import multiprocessing
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import torch
from tqdm import tqdm

from spacy_elmo.weights.formats import read_bundle

from helpers.growths import grown
from helpers.mutated_models import FORMATS
from helpers.mutations import Mutation

MOST_SECONDS = 2.0  # of the processor's time: the machine may have other work
MOST_MEGABYTES = 200
HANGS_AFTER = 60.0  # seconds, of the wall clock
START = "spawn"
WARM_UP = 15  # files first, for what is imported once
GROWN_EVERY = 50


class Outcome(NamedTuple):
    """What became of reading a mutated model.

    result (str): "refused", "read", or what went wrong.
    seconds (float): Time of the processor.
    megabytes (float): Memory beyond what the process had.
    """

    result: str
    seconds: float
    megabytes: float


@dataclass
class Summary:
    """What became of the mutated models of a format.

    counts (Counter[str]): How many were "refused" and "read".
    wrong (List[str]): What went wrong.
    seconds (float): The most time.
    megabytes (float): The most memory.
    """

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0
    megabytes: float = 0.0


def peak_megabytes() -> float:
    """RETURNS (float): The most memory that this process had, on Linux since `forget_peak`."""
    status = Path("/proc/self/status")
    if status.exists():  # what getrusage says, a process has from its parent
        line = next(line for line in status.read_text().split("\n") if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 2**10
    try:
        import resource
    except ImportError:  # not on Windows
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def forget_peak() -> None:
    """From now on the peak is that of what follows, where the system can do so."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def read_once(path: Path, folder: Path, mutation: Mutation) -> Outcome:
    modules = set(sys.modules)
    forget_peak()
    base = peak_megabytes()
    start = time.process_time()
    try:
        bilm = read_bundle(path).bilm
        bilm.embed([["a", "漢" * 60]])
        result = "read"
        if mutation.must_raise:
            result = "read, but it should have been refused"
    except ValueError as error:
        result = "refused" if str(folder) in str(error) else f"no file named: {error!r}"
    except BaseException as error:
        result = f"{type(error).__name__}: {error}"
    seconds, megabytes = time.process_time() - start, peak_megabytes() - base
    imported = set(sys.modules) - modules
    if imported:
        result = f"imported {', '.join(sorted(imported))}"
    if seconds > MOST_SECONDS:
        result = f"took {seconds:.1f} seconds"
    if megabytes > MOST_MEGABYTES:
        result = f"took {megabytes:.0f} MB"
    return Outcome(result, seconds, megabytes)


def work(
    names: list[str], n_files: int, seed: int, every: int, first: int, connection: Any
) -> None:
    """Read mutated models one after another, from number `first` of all on, and tell of
    each before and after."""
    torch.set_num_threads(1)
    for i, name in enumerate(names):
        start = max(0, first - i * n_files)
        if start >= n_files:
            continue
        with tempfile.TemporaryDirectory() as directory:
            model = _Mutated(name, seed, Path(directory))
            for number in range(-WARM_UP, 0):
                model.read(model.mutate(number, 0))
            for number in range(start, n_files):
                mutation = model.mutate(number, every)
                connection.send(mutation)
                connection.send(model.read(mutation))


class _Mutated:
    def __init__(self, name: str, seed: int, folder: Path):
        self.seed = f"{name} {seed}"
        self.form = FORMATS[name]
        self.good, self.folder = folder / "good", folder / "mutated"
        self.good.mkdir()
        self.path = self.folder / self.form.write(self.good).relative_to(self.good)

    def mutate(self, number: int, every: int) -> Mutation:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.good, self.folder)
        if every and number % every == 0:
            growths = self.form.growths
            return grown(growths[number // every % len(growths)], self.folder)
        return self.form.mutate(self.folder, Random(f"{self.seed} {number}"))

    def read(self, mutation: Mutation) -> Outcome:
        return read_once(self.path, self.folder, mutation)


def outcomes(
    names: list[str], n_files: int, seed: int, every: int
) -> Iterator[tuple[int, Mutation, Outcome]]:
    """Read `n_files` mutated models of each format; a process that dies or hangs is
    replaced.

    YIELDS (Tuple[int, Mutation, Outcome]): Number of the file, over all formats, what was
        done to it, and what became of it.
    """
    context = multiprocessing.get_context(START)
    number, last = 0, n_files * len(names)
    while number < last:
        receiving, sending = context.Pipe(duplex=False)
        settings = (names, n_files, seed, every, number, sending)
        process = context.Process(target=work, args=settings)
        process.start()
        sending.close()
        mutation = Mutation("before it was read", False)
        try:
            while number < last:
                if not receiving.poll(HANGS_AFTER):
                    yield number, mutation, Outcome("hangs", HANGS_AFTER, 0.0)
                    number += 1
                    break
                message = receiving.recv()
                if isinstance(message, Mutation):
                    mutation = message
                    continue
                yield number, mutation, message
                number += 1
                if message.megabytes > MOST_MEGABYTES:
                    break  # the peak of a process may stay
        except EOFError:
            process.join()
            yield number, mutation, Outcome(f"the process died ({process.exitcode})", 0.0, 0.0)
            number += 1
        finally:
            process.terminate()
            process.join()
            receiving.close()


def run(
    names: list[str], n_files: int, seed: int = 0, every: int = GROWN_EVERY
) -> dict[str, Summary]:
    """Read mutated models.

    names (List[str]): The formats.
    n_files (int): How many of each.
    seed (int): Of the mutations.
    every (int): Every so many files a structure grew, in turns; 0 for none.
    RETURNS (Dict[str, Summary]): What became of each format's.
    """
    summaries = {name: Summary() for name in names}
    total = n_files * len(names)
    bar = tqdm(outcomes(names, n_files, seed, every), total=total, disable=None, leave=False)
    for number, mutation, outcome in bar:
        name = names[number // n_files]
        bar.set_description(name)
        summary = summaries[name]
        if outcome.result in ("read", "refused"):
            summary.counts[outcome.result] += 1
        else:
            summary.wrong.append(
                f"{name} {number % n_files} ({mutation.description}): {outcome.result}"
            )
        summary.seconds = max(summary.seconds, outcome.seconds)
        summary.megabytes = max(summary.megabytes, outcome.megabytes)
    return summaries


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=2000, help="of each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", choices=list(FORMATS), action="append")
    arguments = parser.parse_args()
    summaries = run(arguments.format or list(FORMATS), arguments.files, arguments.seed)
    for name, summary in summaries.items():
        print(
            f"{name:14}{summary.counts['refused']:6} refused {summary.counts['read']:5} read "
            f"{len(summary.wrong):4} wrong; at most {summary.seconds:.2f} s and "
            f"{summary.megabytes:.0f} MB"
        )
    wrong = [line for summary in summaries.values() for line in summary.wrong]
    print("\n".join(wrong), end="\n" if wrong else "")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
