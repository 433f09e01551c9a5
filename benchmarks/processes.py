"""Training speed of two processes with one thread each, compared with one with two threads.

    python benchmarks/processes.py TRAIN --rounds 3 --steps 20

Both take turns in new processes, which `torch.distributed.run` starts with gloo. Only training
steps are timed, without the first ones.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

WARM_UP = 4  # Steps that are not timed.


def work(train: Path, steps: int, result: Path) -> None:
    """Train in this process together with the others. The first writes tokens per second."""
    import torch
    from thinc.api import Config

    from spacy_elmo.language_model.processes import Processes
    from spacy_elmo.pretraining.config import check_config
    from spacy_elmo.pretraining.trainer import Trainer
    from spacy_elmo.text.prepare import open_corpus

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    processes = Processes.join()
    if processes.size > 1 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[processes.rank]})
    corpus = open_corpus(train)
    names = {"train": str(train), "dev": str(train)}
    trainer = Trainer(check_config(Config({"corpus": names})), corpus, corpus, processes=processes)
    for _ in range(WARM_UP):
        trainer.step()
    processes.wait()
    started = time.perf_counter()
    for _ in range(steps):
        trainer.step()
    processes.wait()
    if processes.is_first:
        n_tokens = steps * trainer.streams.batch_size * trainer.streams.unroll_steps
        rate = n_tokens / (time.perf_counter() - started)
        result.write_text(json.dumps(rate), "utf8")
    processes.leave()


def launch(n_processes: int, n_threads: int, args: argparse.Namespace) -> float:
    """Start processes, and return their tokens per second."""
    with TemporaryDirectory() as folder:
        result = Path(folder) / "rate.json"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += [f"--nproc-per-node={n_processes}", __file__, str(args.train)]
        command += ["--steps", str(args.steps), "--result", str(result)]
        environment = {**os.environ, "OMP_NUM_THREADS": str(n_threads)}
        subprocess.run(command, check=True, env=environment, stderr=subprocess.DEVNULL)
        return float(json.loads(result.read_text("utf8")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("train", type=Path, help="prepared corpus, written by `spacy elmo corpus`")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.result:
        work(args.train, args.steps, args.result)
        return
    ratios = []
    for number in range(args.rounds):
        one, two = launch(1, 2, args), launch(2, 1, args)
        ratios.append(two / one)
        print(
            f"round {number + 1}: one process, two threads {one:,.0f} tokens/s; two processes "
            f"{two:,.0f} tokens/s; ratio {two / one:.2f}; load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
    print(f"median ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
