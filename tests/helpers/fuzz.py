"""Broken and hostile weight files, by the thousand: `make fuzz`.

They are read in a process that is watched. Reading gives a model or a ValueError that names the
file, in under two seconds and 200 MB. It imports nothing, and does not end the process. A file
without an end gives the error. Every fiftieth file has a structure that grew a thousandfold and
more: all of those are refused. Wrong names and shapes: `test_malformed_files.py`.
"""

import argparse
import codecs
import contextlib
import multiprocessing
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

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
# Python imports a codec at its first use. `pickletools` decodes strings of old pickles with it.
codecs.lookup("raw-unicode-escape")


RIGHT = ("read", "refused")
# The format of a model, its number, and whether a structure in it grows.
Job = tuple[str, int, bool]


def peak_megabytes() -> float:
    """Return the peak memory of this process since `forget_peak`; 0 if it is not known."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0.0
    line = next(line for line in status.read_text().split("\n") if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 2**10


def forget_peak() -> None:
    """Reset the peak memory of this process, if the system can do so."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def read_once(path: Path, folder: Path, mutation: Mutation) -> str:
    """Read a file once.

    RETURNS (str): "refused", "read", or the fault.
    """
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
    return result


def read_job(seed: int, folder: Path, job: Job) -> tuple[str, str]:
    """Read one mutated model.

    RETURNS (Tuple[str, str]): The mutation, and the result.
    """
    name, number, grows = job
    form, good, mutated = FORMATS[name], folder / name / "good", folder / name / "mutated"
    if not good.exists():
        torch.set_num_threads(1)
        good.mkdir(parents=True)
        form.write(good)
        for early in range(-WARM_UP, 0):
            read_job(seed, folder, (name, early, False))
    shutil.rmtree(mutated, ignore_errors=True)
    shutil.copytree(good, mutated)
    if grows:
        mutation = grown(form.growths[number % len(form.growths)], mutated)
    else:
        mutation = form.mutate(mutated, Random(f"{name} {seed} {number}"))
    return mutation.description, read_once(mutated / form.path, mutated, mutation)


def outcomes(jobs: list[Job], seed: int) -> Iterator[tuple[Job, str, str]]:
    """Read mutated models in another process, which is replaced once anything went wrong: the peak
    of its memory may stay.

    YIELDS (Tuple[Job, str, str]): A model, what was done to it, and what became of it.
    """
    context = multiprocessing.get_context("spawn")
    done = 0
    while done < len(jobs):
        with tempfile.TemporaryDirectory() as folder, context.Pool(1) as pool:
            found = pool.imap(partial(read_job, seed, Path(folder)), jobs[done:])
            result = RIGHT[0]
            while done < len(jobs) and result in RIGHT:
                what, result = "not known", "the process died or hangs"
                with contextlib.suppress(multiprocessing.TimeoutError):
                    what, result = found.next(HANGS_AFTER)
                yield jobs[done], what, result
                done += 1


def run(jobs: list[Job], seed: int = 0) -> tuple[Counter[tuple[str, str]], list[str]]:
    """Read mutated models.

    jobs (List[Job]): The models.
    seed (int): Of the mutations.
    RETURNS (Tuple[Counter[Tuple[str, str]], List[str]]): How many of each format were "refused" and
        "read", and what went wrong.
    """
    counts: Counter[tuple[str, str]] = Counter()
    wrong = []
    bar = tqdm(outcomes(jobs, seed), total=len(jobs), disable=None, leave=False)
    for (name, number, _), what, result in bar:
        counts[name, result] += 1
        if result not in RIGHT:
            wrong.append(f"{name} {number} ({what}): {result}")
    return counts, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--files", type=int, default=2000, help="of each format")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    jobs = [
        (name, number // (1 if number % GROWN_EVERY else GROWN_EVERY), number % GROWN_EVERY == 0)
        for name in FORMATS
        for number in range(arguments.files)
    ]
    counts, wrong = run(jobs, arguments.seed)
    for name in FORMATS:
        print(f"{name:14}{counts[name, 'refused']:6} refused {counts[name, 'read']:5} read")
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
