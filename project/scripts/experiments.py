"""All runs of a plan, some side by side. What has been done is not repeated, so that the whole can
be stopped and started again."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Optional

import typer
from tqdm import tqdm
from wasabi import msg

from experiment_runs import EXPERIMENTS, PLANS, Run

SCRIPT = Path(__file__).with_name("experiment.py")
POLL_SECONDS = 0.2
LOG_LINES = 5  # of a failed run that are shown
QUICK = ("--max-steps", "60", "--max-minutes", "1", "--eval-frequency", "30", "--patience", "60")
LIMITS = {"full": (), "quick": QUICK}
RUNS = {"full": Path("metrics/runs"), "quick": Path("metrics/quick")}


@dataclass
class Job:
    """A run that is under way."""

    run: Run
    process: subprocess.Popen
    log: IO[bytes]

    def stop(self) -> None:
        """End it; it leaves no file."""
        self.process.terminate()
        self.process.wait()
        self.log.close()

    @property
    def is_done(self) -> bool:
        """RETURNS (bool): Whether it has ended."""
        return self.process.poll() is not None


def start(run: Run, options: Sequence[str], logs: Path) -> Job:
    """Start a run in a process of its own, with one thread."""
    command = [sys.executable, str(SCRIPT), run.experiment, run.data, run.variant]
    command += ["--seed", str(run.seed), "--share", str(run.share), *options]
    log = (logs / f"{run.name}.log").open("wb")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    return Job(run, process, log)


def do(plan: Sequence[Run], options: Sequence[str], logs: Path, jobs: int) -> list[Run]:
    """Do all runs of a plan in their order, `jobs` side by side.

    RETURNS (List[Run]): Those that failed.
    """
    logs.mkdir(parents=True, exist_ok=True)
    waiting = list(plan)
    active: list[Job] = []
    failed = []
    try:
        with tqdm(total=len(plan), unit="run") as bar:
            while waiting or active:
                while waiting and len(active) < jobs:
                    active.append(start(waiting.pop(0), options, logs))
                    bar.set_postfix_str(", ".join(job.run.name for job in active))
                time.sleep(POLL_SECONDS)
                for job in [job for job in active if job.is_done]:
                    active.remove(job)
                    job.log.close()
                    bar.update()
                    if job.process.returncode:
                        failed.append(job.run)
                        bar.write(describe_failure(job, logs))
    finally:
        for job in active:
            job.stop()
    return failed


def describe_failure(job: Job, logs: Path) -> str:
    """RETURNS (str): The end of the run's log."""
    path = logs / f"{job.run.name}.log"
    lines = path.read_text("utf8", errors="replace").splitlines()
    end = "\n".join(f"    {line}" for line in lines[-LOG_LINES:])
    return f"{job.run.name} failed ({path}):\n{end}"


def main(
    plan: str = typer.Option("full", help="full, or quick: every experiment in minutes"),
    experiment: Optional[list[str]] = typer.Option(None, help="Only this one; can be repeated"),
    jobs: int = typer.Option(1, min=1, help="Runs side by side, one processor core each"),
    corpus: Path = typer.Option(Path("corpus"), help="Folder of DATA-train.spacy and so on"),
    model: str = typer.Option("pretraining/model-best", help="Language model"),
    runs: Optional[Path] = typer.Option(
        None, help="Folder for the results: by default metrics/runs, or metrics/quick"
    ),
    logs: Path = typer.Option(Path("training/experiments"), help="Folder for the runs' logs"),
) -> None:
    """Do every run of a plan, the most telling first."""
    if plan not in PLANS:
        msg.fail(f"No plan '{plan}': expected one of {', '.join(PLANS)}", exits=1)
    unknown = sorted(set(experiment or ()) - set(EXPERIMENTS))
    if unknown:
        msg.fail(f"No experiment '{unknown[0]}': expected one of {', '.join(EXPERIMENTS)}", exits=1)
    chosen = [run for run in PLANS[plan]() if not experiment or run.experiment in experiment]
    runs = runs or RUNS[plan]
    options = ["--corpus", str(corpus), "--model", model, "--runs", str(runs), *LIMITS[plan]]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a kill ends the runs, too
    try:
        failed = do(chosen, options, logs, jobs)
    except KeyboardInterrupt:
        msg.warn("Stopped. The same command goes on where it was.")
        raise typer.Exit(130) from None
    if failed:
        msg.fail(f"{len(failed)} of {len(chosen)} runs failed", exits=1)
    msg.good(f"{len(chosen)} runs done: {runs}")


if __name__ == "__main__":
    typer.run(main)
