"""Output of a pretraining run: progress bar, messages, metrics, checkpoints and models.

If a file cannot be written during the run, for example because the disk is full, the run continues
with a warning, and `Reporter.end` tries again. If this fails, too, it raises an error.
"""

import math
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any, Optional

import srsly
import torch

from .. import __version__
from ..files import atomic_write, full_disk, progress_bar
from ..files.paths import content_names
from ..files.terminal import SafePrinter, printable
from ..language_model.model import save_model
from ..language_model.perplexity import Perplexity
from ..weights.attribution import inherited
from ..weights.pipeline_folder import PipelineFolder
from .checkpoint import save_checkpoint, set_aside
from .config import Inputs, TrainingSettings
from .loggers import make_logger, step_info
from .trainer import Trainer

METRICS = "metrics.jsonl"


class Reporter:
    """Writer of a run's progress bar, metrics, checkpoints and models.

    With several processes, only the first process prints and writes.

    trainer (Trainer): The run.
    output (Path): Folder of the run.
    corpus (str): Checksum of the training text.
    checkpoint (Optional[dict]): Content of the checkpoint from which the run resumes. Default: a
        new run.
    """

    def __init__(
        self,
        trainer: Trainer,
        output: Path,
        *,
        corpus: str,
        checkpoint: Optional[dict[str, Any]],
    ):
        self.trainer = trainer
        self.output, self.corpus = output, corpus
        is_resumed = checkpoint is not None
        models = (checkpoint or {}).get("models") or {}
        self.last_report: dict[str, Any] = models.get("report", {})
        first = trainer.processes.is_first
        self.unsaved: set[str] = set(models.get("unsaved", ()) if first else ())
        self.saved_at = trainer.progress.elapsed  # Seconds of the run at the last checkpoint.
        self.has_begun = False
        self.msg = SafePrinter(no_print=not first)
        if first:
            self._keep_metrics_up_to(trainer.progress.step if is_resumed else -1)
            if is_resumed:
                # Later checkpoints are damaged, and must not count for `keep`.
                set_aside(self.output / "checkpoints", trainer.progress.step + 1)
        self.info: dict[str, Any] = {}
        logger = trainer.settings.logger if first else None
        self.log_step, self.finalize = make_logger(logger, trainer.config)
        self._say_sizes()
        if trainer.softmax_warmup > trainer.progress.step:
            self.msg.info(
                f"The first {trainer.softmax_warmup:,} steps train only the new softmax "
                f"(softmax_warmup)"
            )
        if checkpoint is not None:
            self.msg.info(f"Resuming from step {trainer.progress.step:,}")
            self._say_other_streams(checkpoint["states"]["batch_size"])
        form = "{percentage:3.0f}% |{bar}| {elapsed}<{remaining}{postfix}"
        done = trainer.fraction_done
        self.bar = progress_bar(1.0, initial=done, bar_format=form, disable=not first)

    def __enter__(self) -> "Reporter":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], *_: Any) -> None:
        self.bar.close()
        self.finalize()
        if kind is FloatingPointError and self.trainer.processes.is_first:
            # The weights of this checkpoint may be finite, but the run would diverge again with
            # any learning rate.
            set_aside(self.output / "checkpoints", self.trainer.progress.step)

    def on_step(self, trainer: Trainer) -> None:
        """Update the progress bar. Write a checkpoint every `checkpoint_minutes`."""
        self.has_begun = True
        progress = trainer.progress
        shown = f"step {progress.step:,}, {progress.tokens_per_second:,.0f} tokens/s"
        self.bar.set_postfix_str(shown, refresh=False)
        self.bar.update(trainer.fraction_done - self.bar.n)
        if not self._is_evaluated(progress.step):
            self._log(None)
        if progress.elapsed - self.saved_at >= trainer.settings.checkpoint_minutes * 60:
            self._try(self._save_checkpoint)

    def on_evaluation(self, trainer: Trainer, figures: Perplexity, is_best: bool) -> None:
        """Write the metrics and `model-last`, and after the best evaluation also `model-best`.

        trainer (Trainer): The run.
        figures (Perplexity): Result of the evaluation.
        is_best (bool): Whether the perplexity is the best so far.
        """
        report = self.last_report = trainer.report(figures)
        if not trainer.processes.is_first:
            return
        self._try(lambda: self._append(report))
        for name in ("model-last", "model-best") if is_best else ("model-last",):
            self.unsaved.add(name)
            self._try(partial(self._save_model, name))
        if trainer.settings.logger is None:
            self.bar.write(_line(report, figures))
        else:
            self._log(report)

    def end(self) -> None:
        """Write the models whose writing failed, and the last checkpoint. Print the result.

        If a model fails again, the checkpoint names it, so a resumed run writes it.

        RAISES (OSError): The checkpoint or a model cannot be written.
        """
        self.bar.close()
        progress = self.trainer.progress
        is_best = self._is_evaluated(progress.step) and not progress.worse
        # The best weights no longer exist, so `model-best` cannot be written now.
        if "model-best" in self.unsaved and not is_best:
            self.unsaved.discard("model-best")
            self.msg.warn(
                f"{self.output / 'model-best'} is not the best model: the best one could not be "
                f"written"
            )
        try:
            for name in sorted(self.unsaved):
                self._save_model(name)
        finally:
            self._save_checkpoint()
        if self.trainer.stopped:
            self.msg.warn(
                f"Stopped at step {progress.step:,}. To resume from {self.output / 'checkpoints'}, "
                f"run it again with --resume (in Python: `resume=True`)"
            )
            return
        self._say_end()

    def _say_end(self) -> None:
        """Print why the run ended, what it read, and the result."""
        trainer, progress, settings = self.trainer, self.trainer.progress, self.trainer.settings
        reached = [name for name, done in trainer.limits.items() if done >= 1.0] or ["patience"]
        limits = " and ".join(_setting(settings, name) for name in reached)
        if not self.has_begun:
            self.msg.info(
                f"The run was finished before, by {limits}: nothing was trained. To resume it, "
                f"raise [training] {reached[0]}; to start again, overwrite it"
            )
        best = f"{progress.best:.2f}" if progress.best is not None else "unknown"
        self.msg.good(f"Best held-out perplexity {best}: {self.output / 'model-best'}")
        planned = ", ".join(_setting(settings, name) for name in trainer.limits)
        n_times = progress.tokens / trainer.streams.size
        self.msg.info(
            f"Planned: {planned}. Ended by {limits}, after {progress.tokens:,} tokens, "
            f"{n_times:.2g} times the text, {progress.step:,} steps and "
            f"{progress.elapsed / 60:.1f} minutes; {progress.tokens_per_second:,.0f} tokens/s"
        )
        if trainer.is_softmax_alone:
            self.msg.warn(
                f"The language model of {trainer.config.pretraining.init} is unchanged: the first "
                f"{trainer.softmax_warmup:,} steps train only a new softmax. Train for more "
                f"steps, or lower [pretraining] softmax_warmup"
            )
        if progress.before is not None:
            self.msg.info(
                f"Before this run the perplexity was {progress.before:.2f}, on the same text and "
                f"vocabulary"
            )

    def _is_evaluated(self, step: int) -> bool:
        return bool(self.last_report) and self.last_report["step"] == step

    def _save_checkpoint(self) -> None:
        trainer = self.trainer
        # Set the time even if the file cannot be written: not every step must try again.
        self.saved_at = trainer.progress.elapsed
        folder, keep = self.output / "checkpoints", trainer.settings.keep
        models = {"report": self.last_report, "unsaved": sorted(self.unsaved)}
        save_checkpoint(trainer, folder, corpus=self.corpus, keep=keep, models=models)

    def _save_model(self, name: str) -> None:
        config, texts = self.trainer.config, self.trainer.config.corpus
        names = {"train": _names(texts.train), "dev": _names(texts.dev)}
        provenance = {
            **inherited(self.trainer.model.bilm.provenance),
            **self.last_report,
            "version": __version__,
            "corpus": {**texts.model_dump(), **names, "sha256": self.corpus},
            "training": config.training.model_dump(),
            "init": config.pretraining.init,
            "seed": config.seed,
        }
        folder = self.output / name
        others = content_names(folder) - PipelineFolder.written
        if others:
            raise OSError(
                f"{folder} is not replaced, because it contains other files ({min(others)}). Move "
                f"them away."
            )
        with full_disk(folder, "resume with `resume=True`: the earlier model is kept"):
            save_model(self.trainer.model, folder, lang=config.lang, provenance=provenance)
        self.unsaved.discard(name)

    def _append(self, report: dict[str, Any]) -> None:
        path = self.output / METRICS
        atomic_write(path, path.read_text("utf8") + srsly.json_dumps(report) + "\n")

    def _keep_metrics_up_to(self, step: int) -> None:
        """Delete the metrics of steps after `step`, because the run writes them again."""
        path = self.output / METRICS
        lines = path.read_text("utf8", "replace").splitlines() if path.is_file() else []
        kept = [line for line in lines if _step_of(line) <= step]
        atomic_write(path, "".join(f"{line}\n" for line in kept))

    def _try(self, write: Any) -> None:
        """Call `write`. If it raises an OSError, as on a full disk, print it and continue."""
        try:
            write()
        except OSError as error:
            self.bar.write(f"{printable(error)} (The run continues.)", file=sys.stderr)

    def _log(self, report: Optional[dict[str, Any]]) -> None:
        """Call the logger. If it fails, for example without a network, turn it off."""
        try:
            if report is not None:
                folder = str(self.output / "model-last")
                earlier = self.info.get("checkpoints", ())
                self.info = step_info(report, earlier, folder)
            self.log_step(None if report is None else self.info)
        except Exception as error:  # A logger can raise any error.
            self.bar.write(
                f"the logger failed, so the run continues without it: {error!r}", file=sys.stderr
            )
            self.log_step = lambda info: None

    def _say_other_streams(self, n_before: int) -> None:
        """Print what a run loses if it is resumed with another number of streams."""
        n_now = self.trainer.streams.batch_size
        if n_now != n_before:
            self.msg.warn(
                f"The run had {n_before} streams and has {n_now} now: LSTM states start from "
                f"zeros. In this epoch, some text is read twice and some is not read"
            )

    def _say_sizes(self) -> None:
        trainer, streams = self.trainer, self.trainer.streams
        n_weights = sum(weight.numel() for weight in trainer.model.bilm.parameters())
        self.msg.info(
            f"{trainer.train_corpus.n_words:,} tokens, {len(trainer.train_corpus.types):,} types, "
            f"{len(trainer.model.vocabulary):,} words in the softmax; biLM of {n_weights:,} "
            f"weights; {streams.batch_size} streams x {streams.unroll_steps} steps, "
            f"{streams.steps_per_epoch:,} steps an epoch; products in "
            f"{'float32' if trainer.product_dtype is None else 'bfloat16'}"
        )
        if trainer.processes.size == 1 and _is_busy():
            self.msg.warn(
                "Other programs kept a core busy in the last minute. If they go on, threads wait "
                "for each other, and this is faster: "
                "OMP_NUM_THREADS=1 torchrun --nproc-per-node 2 -m spacy elmo ..."
            )


def is_metrics(path: Path) -> bool:
    """Return whether a file contains only metrics of a run. The last line may be incomplete."""
    if not path.is_file():
        return False
    *lines, last = path.read_text("utf8", "replace").split("\n")
    return last[:1] in ("", "{") and all(math.isfinite(_step_of(line)) for line in lines)


def _is_busy() -> bool:
    """Return whether other programs used cores in the last minute that this process could use."""
    if torch.get_num_threads() < 2 or not hasattr(os, "getloadavg"):
        return False
    return os.getloadavg()[0] > (os.cpu_count() or 1) - torch.get_num_threads() + 0.7


def _line(report: dict[str, Any], figures: Perplexity) -> str:
    line = (
        f"step {report['step']:>7,}  tokens {report['tokens']:>12,}  "
        f"{report['elapsed'] / 60:6.1f} min  loss {report['sampled_loss']:.3f}  held-out "
        f"perplexity {figures.mean:.2f}"
    )
    if math.isnan(figures.backward):
        return line
    return f"{line} (forward {figures.forward:.2f}, backward {figures.backward:.2f})"


def _setting(settings: TrainingSettings, name: str) -> str:
    return f"{name} = {getattr(settings, name):,.10g}"


def _step_of(line: str) -> float:
    """Return the step in a line of `metrics.jsonl`; infinity if the line is incomplete."""
    try:
        return float(srsly.json_loads(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")


def _names(inputs: Inputs) -> Inputs:
    """Return file names without folders, because they are published with the model."""
    return Path(inputs).name if isinstance(inputs, str) else [Path(name).name for name in inputs]
