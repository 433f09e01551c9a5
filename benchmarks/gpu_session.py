"""Everything to measure in ten minutes on a machine with a GPU, then training until they are over.

    python benchmarks/gpu_session.py --config configs/pretraining/en_medium_gpu.cfg \
        --run RUN --output RESULTS --minutes 10 --paths.train TEXT --paths.dev DEV
    python benchmarks/gpu_session.py --rehearse --output /tmp/rehearsal    # tiny sizes, on a CPU

It needs no network. Settings of the config are given as for `pretrain`. The stages are, in turn:
the tests of `tests/test_cuda.py`, a profile of training steps, the speed of training with 256, 512
and 1,024 streams, and the speed of prediction of `en_small` and of the original size. Then the run
in the folder RUN starts or resumes. When the time is over, it writes its checkpoint and ends.

RESULTS/session.json is written after each stage, so a session that is cut off loses one stage. A
stage that fails is noted with its error, and the next one begins. The checkpoint is in
RUN/checkpoints.
"""

import argparse
import gc
import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional

import torch
from spacy.cli._util import parse_config_overrides
from thinc.api import Config

from spacy_elmo.bilm.model import BiLM
from spacy_elmo.language_model.processes import Processes
from spacy_elmo.model.config import BiLMConfig
from spacy_elmo.pretraining.checkpoint import checkpoints
from spacy_elmo.pretraining.config import PretrainingConfig, check_config, read_config
from spacy_elmo.pretraining.profiling import profile_steps, profile_text
from spacy_elmo.pretraining.run import pretrain
from spacy_elmo.pretraining.texts import InputTexts, open_texts
from spacy_elmo.pretraining.trainer import Trainer
from spacy_elmo.weights import read_weights

ROOT = Path(__file__).resolve().parents[1]
STAGES = ("tests", "profile", "sweep", "prediction", "run")
FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
ORIGINAL = BiLMConfig(lstm_dim=4096, projection_dim=512, filters=FILTERS, n_highway=2)
TINY = BiLMConfig(lstm_dim=16, projection_dim=8, filters=((1, 4), (2, 8)), char_embed_dim=4)
N_WORDS = 20  # Words of a sentence in prediction.
WARMUP_STEPS = 5  # Steps of the sweep that are not measured: they allocate memory.
SAVING = 40.0  # Seconds at the end for the last evaluation, model and checkpoint of the run.


class Session:
    """Session on a machine: stages that share a time, and their results in one file.

    args (argparse.Namespace): The command line.
    config (PretrainingConfig): Settings of the run.
    """

    def __init__(self, args: argparse.Namespace, config: PretrainingConfig):
        self.args, self.config = args, config
        self.deadline = time.monotonic() + 60 * args.minutes
        self.results: dict[str, Any] = {"machine": machine(), "stages": {}}

    def run(self) -> None:
        """Run all stages that are not skipped."""
        stages: dict[str, Callable[[], Any]] = {
            "tests": self.tests,
            "profile": self.profile,
            "sweep": self.sweep,
            "prediction": self.prediction,
            "run": self.train,
        }
        self.args.output.mkdir(parents=True, exist_ok=True)
        for name, stage in stages.items():
            if name in self.args.skip:
                continue
            print(f"== {name}, {self.seconds_left():.0f} s left", flush=True)
            began, found = time.monotonic(), {}
            try:
                found["result"] = stage()
            except Exception as error:  # The other stages must still run.
                found["error"] = "".join(traceback.format_exception(error))
                print(found["error"], flush=True)
            found["seconds"] = round(time.monotonic() - began, 1)
            self.results["stages"][name] = found
            self.write()
            free_memory()

    def write(self) -> None:
        """Write all results so far."""
        text = json.dumps(self.results, indent=2)
        (self.args.output / "session.json").write_text(text + "\n", "utf8")

    def seconds_left(self) -> float:
        """Return the seconds until the end of the session."""
        return self.deadline - time.monotonic()

    def tests(self) -> dict[str, Any]:
        """Run the tests that need a GPU, at most a fifth of the time."""
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "--maxfail=5",
            "-p",
            "no:cacheprovider",
        ]
        done = subprocess.run(
            [*command, "tests/test_cuda.py"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=12 * self.args.minutes,
        )
        lines = done.stdout.strip().splitlines()
        print("\n".join(lines[-15:]), flush=True)
        return {"status": done.returncode, "output": lines[-60:]}

    def trainer(self, batch_size: int) -> Trainer:
        """Return a trainer with a number of streams, from the initial model of the config."""
        training = self.config.training.model_copy(update={"batch_size": batch_size})
        config = self.config.model_copy(update={"training": training})
        processes = Processes.join()
        texts = InputTexts(config.corpus)
        train, dev = open_texts(config, texts, self.args.run, processes)
        return Trainer(config, train, dev, processes=processes)

    def profile(self) -> dict[str, Any]:
        """Profile steps with the streams of the config."""
        result = profile_steps(self.trainer(self.config.training.batch_size), self.args.steps)
        print(profile_text(result), flush=True)
        return result

    def sweep(self) -> list[dict[str, Any]]:
        """Measure the speed of training by number of streams."""
        rows = []
        for n_streams in self.args.streams:
            free_memory()
            rows.append(train_for(self.trainer(n_streams), self.args.seconds))
            print(rows[-1], flush=True)
        return rows

    def prediction(self) -> list[dict[str, Any]]:
        """Measure the speed of prediction by model, precision and batch size."""
        device, rows = Processes.join().device, []
        makers: dict[str, Callable[[], BiLM]] = {
            "en_small": lambda: BiLM.from_frozen(read_weights("en_small")),
            "original": lambda: BiLM(ORIGINAL),
        }
        if self.args.rehearse:
            makers = {"tiny": lambda: BiLM(TINY)}
        for name, make in makers.items():
            bilm = make()
            bilm.to(device).eval().requires_grad_(False)
            for bilm.precision in ("float32", "auto"):
                for batch_size in self.args.batches:
                    speed = predict(bilm, batch_size)
                    rows.append(
                        {
                            "model": name,
                            "precision": bilm.precision,
                            "sentences": batch_size,
                            "words_per_second": round(speed),
                        }
                    )
                    print(rows[-1], flush=True)
        return rows

    def train(self) -> dict[str, Any]:
        """Start or resume the run, and stop it when the time is over."""
        seconds = max(1.0, self.seconds_left() - SAVING)
        # A run that receives this signal ends after its step, and writes a checkpoint.
        timer = threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT))
        timer.daemon = True
        timer.start()
        try:
            is_finished = pretrain(self.config, self.args.run, resume=True)
        finally:
            timer.cancel()
        found = checkpoints(self.args.run / "checkpoints")
        metrics = (self.args.run / "metrics.jsonl").read_text("utf8").splitlines()
        return {
            "is_finished": is_finished,
            "checkpoint": str(found[-1]) if found else None,
            "metrics": [json.loads(line) for line in metrics[-20:]],
        }


def machine() -> dict[str, Any]:
    """Describe the machine: processor, GPU and versions."""
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cores": os.cpu_count(),
        "gpu": None,
    }
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        found |= {"gpu": properties.name, "gpu_memory": properties.total_memory}
        found["cuda"] = torch.version.cuda
    return found


def free_memory() -> None:
    """Free the memory of trainers that are gone."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def train_for(trainer: Trainer, seconds: float) -> dict[str, Any]:
    """Train for some seconds, and return speed, loss and memory."""
    for _ in range(WARMUP_STEPS):
        trainer.start_step()
    trainer.wait()
    tokens, began = trainer.progress.tokens, time.perf_counter()
    steps = trainer.progress.step
    while time.perf_counter() - began < seconds:
        trainer.start_step()
    trainer.wait()
    took = time.perf_counter() - began
    losses, is_gpu = trainer.progress.losses, torch.cuda.is_available()
    return {
        "streams": trainer.streams.batch_size,
        "steps": trainer.progress.step - steps,
        "tokens_per_second": round((trainer.progress.tokens - tokens) / took),
        "first_loss": losses[0],
        "last_loss": sum(losses[-5:]) / len(losses[-5:]),
        "peak_memory": torch.cuda.max_memory_allocated() if is_gpu else None,
    }


def predict(bilm: BiLM, n_sentences: int) -> float:
    """Return words per second of sentences of 20 words."""
    words = [f"word{number}" for number in range(2000)]
    sentences = [
        [words[(7 * row + column) % len(words)] for column in range(N_WORDS)]
        for row in range(n_sentences)
    ]
    bilm.embed(sentences)
    began, n_calls = time.perf_counter(), 0
    while time.perf_counter() - began < 1.0 or n_calls < 2:
        layers, _ = bilm.embed(sentences)
        layers[-1].sum().item()  # Wait for the GPU.
        n_calls += 1
    return n_calls * n_sentences * N_WORDS / (time.perf_counter() - began)


def rehearsed(args: argparse.Namespace) -> PretrainingConfig:
    """Return a config of a tiny run, with its text in the output folder, and shorten the stages."""
    args.output.mkdir(parents=True, exist_ok=True)
    text = args.output / "text.txt"
    text.write_text("the cat sat on a mat .\ndogs run far !\n" * 60, "utf8")
    args.streams, args.batches, args.seconds, args.steps = [4, 8], [2], 0.1, 3
    settings = {
        "model": TINY.to_dict(),
        "corpus": {"train": str(text), "dev": str(text), "noise": 0.1, "case_noise": 0.1},
        "vocabulary": {"min_count": 1},
        "training": {"batch_size": 4, "unroll_steps": 8, "max_epochs": 0, "max_steps": 6},
    }
    return check_config(Config(settings), "the rehearsal")


def main(arguments: Optional[list[str]] = None) -> dict[str, Any]:
    """Run a session.

    arguments (Optional[List[str]]): The command line. Default: the arguments of the process.
    RETURNS (dict): The results.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--config", type=Path, default=ROOT / "configs/pretraining/en_medium_gpu.cfg"
    )
    parser.add_argument("--run", type=Path, help="Folder of the run; default: OUTPUT/run")
    parser.add_argument("--output", type=Path, required=True, help="Folder for the results")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--streams", type=int, nargs="+", default=[256, 512, 1024])
    parser.add_argument("--seconds", type=float, default=40.0, help="Seconds per number of streams")
    parser.add_argument("--steps", type=int, default=30, help="Steps of the profile")
    parser.add_argument("--batches", type=int, nargs="+", default=[32, 128, 512, 1024])
    parser.add_argument("--skip", nargs="+", default=[], choices=STAGES)
    parser.add_argument("--rehearse", action="store_true", help="Tiny sizes, also without a GPU")
    args, settings = parser.parse_known_args(arguments)
    args.run = args.run or args.output / "run"
    if args.rehearse:
        config = rehearsed(args)
    else:
        if not torch.cuda.is_available():
            parser.error("PyTorch sees no GPU here. To try the script without one, add --rehearse")
        config = read_config(args.config, parse_config_overrides(settings))
    session = Session(args, config)
    session.run()
    return session.results


if __name__ == "__main__":
    main()
