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
# A model computes under its name: it does not know its file.
NOT_FINITE = "gives vectors that are not finite"
WARM_UP = 15  # files first, for what is imported once
GROWN_EVERY = 50


# The format of a model, its number, and whether a structure in it grows.
Job = tuple[str, int, bool]


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
    """RETURNS (float): The most memory that this process had since `forget_peak`; 0 where the
    system does not say."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0.0
    line = next(line for line in status.read_text().split("\n") if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 2**10


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
        read_bundle(path).bilm.embed([["a", "漢" * 60]])
        result = "read, but it should have been refused" if mutation.must_raise else "read"
    except ValueError as error:
        known = str(folder) in str(error) or NOT_FINITE in str(error)
        result = "refused" if known else f"no file named: {error!r}"
    except BaseException as error:
        result = f"{type(error).__name__}: {error}"
    seconds, megabytes = time.process_time() - start, peak_megabytes() - base
    if imported := set(sys.modules) - modules:
        result = f"imported {', '.join(sorted(imported))}"
    if seconds > MOST_SECONDS:
        result = f"took {seconds:.1f} seconds"
    if megabytes > MOST_MEGABYTES:
        result = f"took {megabytes:.0f} MB"
    return Outcome(result, seconds, megabytes)


class _Mutated:
    def __init__(self, name: str, seed: int, folder: Path):
        self.seed = f"{name} {seed}"
        self.form = FORMATS[name]
        self.good, self.folder = folder / name / "good", folder / name / "mutated"
        self.good.mkdir(parents=True)
        self.path = self.folder / self.form.write(self.good).relative_to(self.good)

    def mutate(self, number: int, grows: bool) -> Mutation:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.good, self.folder)
        growths = self.form.growths
        if grows:
            return grown(growths[number % len(growths)], self.folder)
        return self.form.mutate(self.folder, Random(f"{self.seed} {number}"))

    def read(self, mutation: Mutation) -> Outcome:
        return read_once(self.path, self.folder, mutation)


def work(jobs: list[Job], seed: int, first: int, connection: Any) -> None:
    """Read mutated models one after another, from number `first` on, and tell of each before
    and after."""
    torch.set_num_threads(1)
    models: dict[str, _Mutated] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, number, grows in jobs[first:]:
            if name not in models:
                models[name] = model = _Mutated(name, seed, Path(folder))
                for early in range(-WARM_UP, 0):
                    model.read(model.mutate(early, False))
            mutation = models[name].mutate(number, grows)
            connection.send(mutation)
            connection.send(models[name].read(mutation))


def outcomes(jobs: list[Job], seed: int) -> Iterator[tuple[Job, Mutation, Outcome]]:
    """Read mutated models; a process that dies or hangs is replaced.

    YIELDS (Tuple[Job, Mutation, Outcome]): A model, what was done to it, and what became of it.
    """
    context = multiprocessing.get_context("spawn")
    done = 0
    while done < len(jobs):
        receiving, sending = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(jobs, seed, done, sending))
        process.start()
        sending.close()
        mutation = Mutation("before it was read", False)
        try:
            while done < len(jobs):
                if not receiving.poll(HANGS_AFTER):
                    yield jobs[done], mutation, Outcome("hangs", HANGS_AFTER, 0.0)
                    done += 1
                    break
                message = receiving.recv()
                if isinstance(message, Mutation):
                    mutation = message
                    continue
                yield jobs[done], mutation, message
                done += 1
                if message.megabytes > MOST_MEGABYTES:
                    break  # the peak of a process may stay
        except EOFError:
            process.join()
            yield jobs[done], mutation, Outcome(f"the process died ({process.exitcode})", 0.0, 0.0)
            done += 1
        finally:
            process.terminate()
            process.join()
            receiving.close()


def run(jobs: list[Job], seed: int = 0) -> dict[str, Summary]:
    """Read mutated models.

    jobs (List[Job]): The models.
    seed (int): Of the mutations.
    RETURNS (Dict[str, Summary]): What became of those of each format.
    """
    summaries = {name: Summary() for name, *_ in jobs}
    bar = tqdm(outcomes(jobs, seed), total=len(jobs), disable=None, leave=False)
    for (name, number, _), mutation, outcome in bar:
        bar.set_description(name)
        summary = summaries[name]
        if outcome.result in ("read", "refused"):
            summary.counts[outcome.result] += 1
        else:
            summary.wrong.append(f"{name} {number} ({mutation.description}): {outcome.result}")
        summary.seconds = max(summary.seconds, outcome.seconds)
        summary.megabytes = max(summary.megabytes, outcome.megabytes)
    return summaries


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=2000, help="of each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", choices=list(FORMATS), action="append")
    arguments = parser.parse_args()
    jobs = [
        (name, number // (1 if number % GROWN_EVERY else GROWN_EVERY), number % GROWN_EVERY == 0)
        for name in arguments.format or FORMATS
        for number in range(arguments.files)
    ]
    summaries = run(jobs, arguments.seed)
    for name, summary in summaries.items():
        refused, read, wrong = summary.counts["refused"], summary.counts["read"], len(summary.wrong)
        print(f"{name:14}{refused:6} refused {read:5} read {wrong:4} wrong; at most ", end="")
        print(f"{summary.seconds:.2f} s and {summary.megabytes:.0f} MB")
    wrong = [line for summary in summaries.values() for line in summary.wrong]
    print("\n".join(wrong), end="\n" if wrong else "")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
