"""Runner of all trials of a plan, several in parallel.

Each trial is a process of its own with one thread. Trials with a result are skipped, so an
interrupted plan resumes when it is started again.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Optional

import typer
from tqdm import tqdm
from wasabi import msg

from spacy_elmo.cli.errors import no_traceback, stopped

from .run_trial import Places, prepare, use_processor
from .runs import folder_of
from .trials import EXPERIMENTS, PLANS, Trial

PROJECT = Path(__file__).parents[2]
POLL_SECONDS = 0.2
MIN_INTERVAL = 0.5 if sys.stderr.isatty() else 60.0  # Seconds between updates of the bar.
LOG_LINES = 5  # Number of log lines to show if a trial fails.
LIMITS: dict[str, dict[str, Any]] = {
    "full": {},
    "quick": {"max_steps": 60, "max_minutes": 1.0, "patience": 60, "eval_frequency": 30},
}


@dataclass
class Active:
    """Trial that runs in its own process.

    trial (Trial): The trial.
    process (Popen): The process.
    log (IO[bytes]): Open log file of the process.
    """

    trial: Trial
    process: subprocess.Popen
    log: IO[bytes]

    @property
    def has_ended(self) -> bool:
        """True if the process has ended."""
        return self.process.poll() is not None

    def stop(self) -> None:
        """Terminate the process. A trial that is not finished leaves no result."""
        self.process.terminate()
        self.process.wait()
        self.log.close()


def start(trial: Trial, options: Sequence[str], logs: Path) -> Active:
    """Start a trial in a process with one thread.

    trial (Trial): The trial.
    options (Sequence[str]): Command line options of run_trial.
    logs (Path): Folder of the log files.
    RETURNS (Active): The running trial.
    """
    command = [sys.executable, "-m", "scripts.experiments.run_trial"]
    command += [trial.experiment, trial.data, trial.variant]
    command += ["--seed", str(trial.seed), "--share", str(trial.share), *options]
    log = (logs / f"{trial.name}.log").open("wb")
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    path = os.pathsep.join(filter(None, (str(PROJECT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, **threads, "PYTHONPATH": path}
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    return Active(trial, process, log)


def do_all(
    plan: Sequence[Trial],
    is_done: Callable[[Trial], bool],
    options: Sequence[str],
    logs: Path,
    jobs: int,
) -> list[Trial]:
    """Run the trials of a plan in order, `jobs` at a time.

    plan (Sequence[Trial]): The trials.
    is_done (Callable): Returns whether a trial has a result already; it is skipped then.
    options (Sequence[str]): Command line options of run_trial.
    logs (Path): Folder of the log files.
    jobs (int): Number of parallel trials.
    RETURNS (List[Trial]): The trials that failed.
    """
    logs.mkdir(parents=True, exist_ok=True)
    waiting = list(plan)
    active: list[Active] = []
    failed = []
    try:
        with tqdm(total=len(plan), unit="trial", mininterval=MIN_INTERVAL) as bar:
            while waiting or active:
                while waiting and len(active) < jobs:
                    trial = waiting.pop(0)
                    if is_done(trial):
                        bar.update()
                    else:
                        active.append(start(trial, options, logs))
                bar.set_postfix_str(", ".join(one.trial.name for one in active), refresh=False)
                time.sleep(POLL_SECONDS)
                for one in [one for one in active if one.has_ended]:
                    active.remove(one)
                    one.log.close()
                    bar.update()
                    if one.process.returncode:
                        failed.append(one.trial)
                        bar.write(describe_failure(one.trial, logs))
    finally:
        for one in active:
            one.stop()
    return failed


def leave_out(plan: Sequence[Trial], places: Places) -> list[Trial]:
    """Return the trials whose inputs exist, and print a warning for each missing file.

    RETURNS (List[Trial]): The trials that can run.
    RAISES (ValueError): No trial can run.
    """
    missing = {trial: places.missing(trial) for trial in plan}
    counts = Counter(path for paths in missing.values() for path in paths)
    for path, count in counts.items():
        msg.warn(f"{path} is missing: {count} of {len(plan)} trials are left out until it exists")
    ready = [trial for trial, paths in missing.items() if not paths]
    if not ready:
        raise ValueError("no trial can run: each one lacks an input. Create it first")
    return ready


def describe_failure(trial: Trial, logs: Path) -> str:
    """Return a message with the last lines of a trial's log."""
    path = logs / f"{trial.name}.log"
    lines = path.read_text("utf8", errors="replace").splitlines()
    end = "\n".join(f"    {line}" for line in lines[-LOG_LINES:])
    return f"{trial.name} failed ({path}):\n{end}"


def main(
    plan: str = typer.Option("full", help="full, or quick (every experiment in minutes)"),
    experiment: Optional[list[str]] = typer.Option(
        None, help="Run only this experiment; can be repeated"
    ),
    jobs: int = typer.Option(1, min=1, help="Number of parallel trials; each uses one core"),
    corpus: Path = typer.Option(Places.corpus, help="Folder with DATA-train.spacy ..."),
    model: str = typer.Option(Places.model, help="Language model"),
    models: Path = typer.Option(Places.models, help="Folder with language models to compare"),
    vectors: Path = typer.Option(Places.vectors, help="Pipeline with static vectors"),
    tok2vec: Path = typer.Option(Places.tok2vec, help="Output of spacy pretrain (model0.bin)"),
    runs: Optional[Path] = typer.Option(
        None, help="Output folder of the results; default: metrics/runs or metrics/quick"
    ),
    logs: Path = typer.Option(Path("training/experiments"), help="Output folder of the logs"),
    gpu_id: int = typer.Option(-1, help="GPU to use; -1 for the CPU"),
) -> None:
    """Run all trials of a plan, the most important first."""
    folder = folder_of(plan, runs)
    unknown = sorted(set(experiment or ()) - set(EXPERIMENTS))
    if unknown:
        msg.fail(f"No experiment '{unknown[0]}'. Use one of {', '.join(EXPERIMENTS)}", exits=1)
    chosen = [trial for trial in PLANS[plan]() if not experiment or trial.experiment in experiment]
    changed = LIMITS[plan]
    places = Places(corpus, model, models, vectors, tok2vec, folder)
    options = [part for name, at in asdict(places).items() for part in (f"--{name}", str(at))]
    options += ["--gpu-id", str(gpu_id)]
    for name, value in changed.items():
        options += [f"--{name.replace('_', '-')}", str(value)]

    def is_done(trial: Trial) -> bool:
        """Return whether a trial has a result. Copy it from an equal trial if there is one."""
        job = prepare(trial, places, changed)
        result = job.find_result()
        if result is not None:
            job.write(result)
        return result is not None

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # `kill` then stops the trials, too.
    with no_traceback(), stopped("Stopped. Run the same command again to resume."):
        use_processor(gpu_id)  # Fail before the first trial if there is no GPU.
        chosen = leave_out(chosen, places)
        failed = do_all(chosen, is_done, options, logs, jobs)
    if failed:
        msg.fail(
            f"{len(failed)} of {len(chosen)} trials failed. Run again to repeat them",
            exits=1,
        )
    msg.good(f"{len(chosen)} trials done: {folder}")


if __name__ == "__main__":
    typer.run(main)
