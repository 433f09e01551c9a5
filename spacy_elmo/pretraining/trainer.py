"""Training loop of a language model.

Invariant: the result of a step depends only on the settings, the text, the states of model and
optimizers, the number of the step and the number of tokens before it. The window follows from the
tokens, and noise and random draws from the seed and the step, so no generator carries a state. So
a resumed run and a run that was not interrupted have the same weights, bit for bit.

On a GPU, a step waits for nothing: a thread reads the next window, and the loss of a step is read
in the next one. So the GPU always has work.

With several processes, each process trains on its own streams. The processes average their
gradients, and make the same update. Without dropout, a step of several processes equals a step of
one process, except for rounding. With dropout, it does not: each process draws its own masks. To
make the masks equal, each process would have to draw the masks of all streams.
"""

import math
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any, Optional

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from ..bilm.lstm import BiLMState
from ..bilm.precision import without_tf32
from ..bilm.sections import section
from ..bilm.softmax import AdaptiveSoftmax, SoftmaxRows
from ..language_model.model import BiLMEncoder, LanguageModel
from ..language_model.perplexity import Perplexity, perplexity
from ..language_model.processes import Processes
from ..language_model.windows import TrainingStreams
from ..text.corpus import Corpus
from .config import PretrainingConfig
from .initial_model import initial_model, product_dtype, share_table
from .losses import PendingLosses
from .optimizers import Optimizers, learn_rate_factor
from .reader import SHARED, ReadAhead, TrainingPart, TrainingWindow, WindowReader, draw_seed
from .stopping import check_finite, diverged, stop_signals


@dataclass
class RunProgress:
    """Progress of a run, a part of each checkpoint.

    step (int): Number of finished steps.
    tokens (int): Number of tokens and marks that all processes read, counted in one direction.
    seconds (float): Seconds in training steps.
    elapsed (float): Seconds since the run began, without the evaluation of the initial model.
    sampled_loss (float): Mean training loss between the last two evaluations, in nats.
    best (Optional[float]): Lowest held-out perplexity so far.
    before (Optional[float]): Held-out perplexity of the initial model; None if the model is new.
    worse (int): Number of evaluations since the best one.
    losses (List[float]): Loss of each step since the last evaluation.
    gradient_norm (Optional[float]): Mean norm of all gradients before clipping, in the steps
        between the last two evaluations; None if it is not known.
    """

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    elapsed: float = 0.0
    sampled_loss: float = math.nan
    best: Optional[float] = None
    before: Optional[float] = None
    worse: int = 0
    losses: list[float] = field(default_factory=list)
    gradient_norm: Optional[float] = None

    @property
    def tokens_per_second(self) -> float:
        """Mean number of tokens per second of training steps."""
        return self.tokens / self.seconds if self.seconds else 0.0


class Trainer:
    """Trainer of a language model.

    config (PretrainingConfig): The settings.
    train (Corpus): The text to train on.
    dev (Corpus): Held-out text.
    model (Optional[LanguageModel]): The model; default: the initial model of the settings.
    processes (Optional[Processes]): The processes of the run. Default: only this process.
    is_pipelined (Optional[bool]): Whether to read the next window in a thread, and to check the
        loss of a step only in the next step. Default: on a GPU.
    RAISES (ValueError): `batch_size` is not a multiple of the number of processes times
        `accumulate_gradient`, or the text is too short.
    """

    def __init__(
        self,
        config: PretrainingConfig,
        train: Corpus,
        dev: Corpus,
        *,
        model: Optional[LanguageModel] = None,
        processes: Optional[Processes] = None,
        is_pipelined: Optional[bool] = None,
    ):
        self.config, self.settings = config, config.training
        self.train_corpus, self.dev_corpus = train, dev
        self.processes = processes or Processes()
        torch.manual_seed(config.seed)
        self.softmax_warmup = 0
        if model is None:
            model, self.softmax_warmup = initial_model(config, train)
        if self.settings.share_embedding_softmax:
            share_table(model)
        self.model = model.to(self.processes.device)
        self.product_dtype = product_dtype(self.settings.precision, self.processes.device)
        self.streams = TrainingStreams(
            train,
            batch_size=self.settings.batch_size,
            unroll_steps=self.settings.unroll_steps,
            seed=config.seed,
            directions=self.settings.directions,
            multiple=self.processes.size * self.settings.advanced.accumulate_gradient,
        )
        reader = WindowReader(
            self.streams,
            self.model.bilm.indexer,
            self.model.vocabulary.ids_of(train.types),
            config.corpus,
            seed=config.seed,
            n_directions=self.model.bilm.config.n_directions,
            rank=self.processes.rank,
            size=self.processes.size,
            n_parts=self.settings.advanced.accumulate_gradient,
        )
        if is_pipelined is None:  # On a CPU, a thread would take its time from the step.
            is_pipelined = self.processes.device.type == "cuda"
        self.read: Callable[[int, int], TrainingWindow]
        self.read = ReadAhead(reader) if is_pipelined else reader
        self.pending_losses = PendingLosses(n_waiting=int(is_pipelined))
        self.state = self.model.bilm.zero_state(self.streams.batch_size // self.processes.size)
        self.bilm_encoder: Any = BiLMEncoder(self.model.bilm)
        if self.processes.size > 1:
            self.bilm_encoder = DistributedDataParallel(self.bilm_encoder)
        elif self.settings.advanced.accumulate_gradient == 1 and not self.settings.dropout:
            self.bilm_encoder.record(len(self.state), self.streams.unroll_steps, self.product_dtype)
        # All processes must compute the same update: use bfloat16 only if all can.
        common = self.processes.agree(int(self.product_dtype is not None))
        dtype = self.product_dtype if common else None
        self.optimizers = Optimizers(self.settings, self.model, dtype)
        self.progress = RunProgress()
        self.norm_sum = torch.zeros((), device=self.processes.device)
        self.stopped = False

    @property
    def limits(self) -> dict[str, float]:
        """Finished part of the run for each limit, by name. 1 means that the limit is reached."""
        settings = self.settings
        limits = {
            "max_epochs": (
                self.window_number,
                settings.max_epochs * self.streams.steps_per_epoch,
            ),
            "max_steps": (self.progress.step, settings.max_steps),
            "max_tokens": (self.progress.tokens, settings.max_tokens),
            "max_minutes": (self.progress.elapsed, settings.max_minutes * 60),
        }
        return {name: done / limit for name, (done, limit) in limits.items() if limit}

    @property
    def fraction_done(self) -> float:
        """Finished part of the run, 0 to 1. The limit that comes first counts."""
        return min(1.0, max(self.limits.values(), default=0.0))

    @property
    def is_softmax_alone(self) -> bool:
        """True if only the softmax has been trained so far."""
        return bool(self.softmax_warmup) and self.progress.step <= self.softmax_warmup

    @property
    def is_over(self) -> bool:
        """True if a limit is reached, or perplexity did not improve in `patience` evaluations."""
        patience = self.settings.patience
        return self.fraction_done >= 1.0 or bool(patience and self.progress.worse >= patience)

    def run(
        self,
        *,
        on_step: Callable[["Trainer"], None] = lambda trainer: None,
        on_evaluation: Callable[["Trainer", Perplexity, bool], None],
    ) -> None:
        """Train until a limit is reached. Evaluate every `eval_frequency` steps and at the end.

        SIGINT, SIGTERM and SIGHUP end the run after the current step, and set `stopped`.

        on_step (Callable): Called after every step.
        on_evaluation (Callable): Called after every evaluation, with the perplexity and whether it
            is the best so far.
        """
        began = time.monotonic() - self.progress.elapsed
        with stop_signals() as signals:
            while not self.is_over:
                if self._is_before_due:
                    paused = time.monotonic()
                    self.progress.before = self._perplexity().mean
                    began += time.monotonic() - paused  # It does not count for max_minutes.
                started = time.perf_counter()
                self.start_step()
                self.progress.seconds += time.perf_counter() - started
                elapsed = time.monotonic() - began if self.processes.is_first else 0.0
                self.progress.elapsed, stop = self.processes.sum([elapsed, float(len(signals))])
                if self.progress.step % self.settings.eval_frequency == 0 or self.is_over:
                    on_evaluation(self, *self.evaluate())
                on_step(self)
                if stop and not self.is_over:
                    self.stopped = True
                    return

    def step(self) -> float:
        """Train for one step, and wait for its loss.

        RETURNS (float): The loss in nats, the mean over all processes' predictions.
        RAISES (FloatingPointError): The loss is not finite.
        """
        self.start_step()
        self.wait()
        return self.progress.losses[-1]

    def start_step(self) -> None:
        """Train for one step. On a GPU, do not wait until it is computed.

        RAISES (FloatingPointError): The loss of this step, or on a GPU of the step before, is not
            finite.
        """
        self.model.train()
        step, settings = self.progress.step, self.settings
        alone = step < self.softmax_warmup
        with section("reader"):
            window = self.read(step, self.window_number)
        torch.manual_seed(draw_seed(self.config.seed, step, 1 + self.processes.rank))
        with section("softmax"):
            rows = self._softmax_rows(window, step)
        n_parts, state = settings.advanced.accumulate_gradient, self._initial_state(step)
        losses, states = [], []
        for number, part in enumerate(window.parts):
            size = part.inputs.batch_sizes[0]
            mine = range(number * size, (number + 1) * size)
            before = state if n_parts == 1 else state.rows(mine)
            # The processes exchange gradients only in the last part, for all parts together. While
            # only the softmax is trained, the biLM has no gradients to exchange.
            is_local = self.processes.size > 1 and (alone or number + 1 < n_parts)
            with self.bilm_encoder.no_sync() if is_local else nullcontext():
                loss, after = self._loss(part, before, rows, alone)
                # Otherwise cuDNN's LSTM would use TF32 in its backward pass.
                with section("backward"), without_tf32():
                    (loss / n_parts).backward()
            losses.append(loss.detach())
            states.append(after.detach())
        loss = torch.stack(losses).mean()
        # DistributedDataParallel has averaged the gradients of the biLM, but not of the softmax.
        self.processes.mean_(loss, *self.optimizers.softmax_gradients(rows))
        self.pending_losses.add(step, loss)
        self._take_losses(self.pending_losses.take())
        with section("optimizer"):
            # Do not wait for the GPU to read the norm.
            self.norm_sum += self.optimizers.clip(rows)
            self.optimizers.step(self.learn_rate, rows)
        self.state = BiLMState.concatenate(states)
        self.progress.step += 1
        self.progress.tokens += window.n_tokens

    @property
    def window_number(self) -> int:
        """Number of the next window in the text, through all epochs.

        It follows from the tokens that were read, not from the step: so a run that is resumed with
        other streams continues at the same share of its epoch.
        """
        return self.progress.tokens // (self.streams.batch_size * self.streams.unroll_steps)

    def wait(self) -> None:
        """Wait until the GPU has computed the losses of all steps.

        RAISES (FloatingPointError): A loss is not finite.
        """
        self._take_losses(self.pending_losses.take(n_waiting=0))

    def _take_losses(self, losses: list[tuple[int, float]]) -> None:
        """Note the losses of steps, and check them."""
        for step, value in losses:
            if not math.isfinite(value):
                self.progress.step = step  # On a GPU, the run is one step ahead of the loss.
                raise diverged(f"the loss became {value}", step, self.settings)
            self.progress.losses.append(value)

    @property
    def learn_rate(self) -> float:
        """Learning rate of the next step."""
        fraction, warmup = self.fraction_done, self.softmax_warmup
        factor = learn_rate_factor(self.settings, self.progress.step, fraction, warmup)
        return self.settings.learn_rate * factor

    def evaluate(self) -> tuple[Perplexity, bool]:
        """Return the held-out perplexity, and whether it is the best so far.

        RAISES (FloatingPointError): The perplexity or a weight is not finite.
        """
        self.wait()
        figures = self._perplexity()
        progress = self.progress
        if not math.isfinite(figures.mean):
            what = f"the held-out perplexity became {figures.mean}"
            raise diverged(what, progress.step, self.settings)
        check_finite(self.model.state_dict(), progress.step, self.settings)
        losses, progress.losses = progress.losses, []
        progress.sampled_loss = sum(losses) / len(losses) if losses else math.nan
        norm = float(self.norm_sum) / len(losses) if losses else math.nan
        progress.gradient_norm = norm if math.isfinite(norm) else None
        self.norm_sum.zero_()
        is_best = progress.best is None or figures.mean < progress.best
        if is_best:
            progress.best = figures.mean
        progress.worse = 0 if is_best else progress.worse + 1
        return figures, is_best

    def report(self, figures: Perplexity) -> dict[str, Any]:
        """Return the metrics of an evaluation, one line of `metrics.jsonl`."""
        progress = self.progress
        return {
            "step": progress.step,
            "epoch": self.window_number / self.streams.steps_per_epoch,
            "tokens": progress.tokens,
            "seconds": round(progress.seconds, 2),
            "elapsed": round(progress.elapsed, 2),
            "tokens_per_second": round(progress.tokens_per_second, 1),
            "learn_rate": self.learn_rate,
            "sampled_loss": progress.sampled_loss,
            "gradient_norm": progress.gradient_norm,
            "perplexity": figures.to_dict(),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the states for a checkpoint. All processes must call this at the same step.

        RETURNS (dict): The states, as nested dicts and lists of tensors, numbers and strings.
        RAISES (FloatingPointError): A weight is not finite.
        """
        self.wait()
        learned = {
            "bilm": self.model.bilm.state_dict(),
            "softmax": self.model.softmax.state_dict(),
            "optimizers": self.optimizers.state_dict(),
        }
        check_finite(learned, self.progress.step, self.settings)
        return {
            **learned,
            "batch_size": self.streams.batch_size,
            "hidden": self.processes.gather_rows(self.state.hidden, 2),
            "cell": self.processes.gather_rows(self.state.cell, 2),
            "progress": asdict(self.progress),
            "norm_sum": self.norm_sum,
            "softmax_warmup": self.softmax_warmup,
        }

    def load_state_dict(self, states: dict[str, Any]) -> None:
        """Continue from the states of another trainer with the same text.

        With another number of streams, each stream is at another place of the text. So the LSTM
        states start from zeros, and the run continues at the same share of its epoch: until the
        end of this epoch, some text is read twice and some is not read.

        states (dict): The result of `state_dict`. The number of processes may differ.
        """
        self.model.bilm.load_state_dict(states["bilm"])
        self.model.softmax.load_state_dict(states["softmax"])
        self.optimizers.load_state_dict(states["optimizers"])
        if states["batch_size"] == self.streams.batch_size:
            parts = (states[name][:, :, self._own_streams] for name in ("hidden", "cell"))
            self.state = BiLMState(*(part.to(self.processes.device) for part in parts))
        self.progress = RunProgress(**states["progress"])
        self.norm_sum = states["norm_sum"].clone().to(self.processes.device)
        self.softmax_warmup = states["softmax_warmup"]

    def _loss(
        self, part: TrainingPart, state: BiLMState, rows: Optional[SoftmaxRows], alone: bool
    ) -> tuple[Tensor, BiLMState]:
        dropout = self.settings.dropout
        with torch.no_grad() if alone else nullcontext():
            contexts, after = self.bilm_encoder(part.inputs, state, dropout, self.product_dtype)
        with section("softmax"):
            contexts = F.dropout(contexts, dropout)
            targets = self.model.bilm.to_device(part.targets)
            softmax = self.model.softmax
            if isinstance(softmax, AdaptiveSoftmax):
                return softmax.loss(contexts, targets), after
            assert rows is not None
            return softmax.loss(contexts, targets, rows, self.product_dtype), after

    def _softmax_rows(self, window: TrainingWindow, step: int) -> Optional[SoftmaxRows]:
        """Return the softmax rows of targets and candidates; None for an adaptive softmax."""
        softmax = self.model.softmax
        if isinstance(softmax, AdaptiveSoftmax):
            return None
        candidates = softmax.all_words()
        if self.settings.softmax == "sampled":
            generator = torch.Generator().manual_seed(draw_seed(self.config.seed, step, SHARED))
            candidates = softmax.draw_negatives(self.settings.advanced.n_negatives, generator)
        return softmax.rows(torch.from_numpy(window.target_words), candidates)

    def _initial_state(self, step: int) -> BiLMState:
        """Return the LSTM state after the last step, set to 0 in a random share of the streams."""
        # All processes draw for all streams, so their number does not change the result.
        rng = np.random.default_rng(draw_seed(self.config.seed, step, SHARED))
        drawn = rng.random(self.streams.batch_size)
        kept = drawn[self._own_streams] >= self.settings.advanced.state_reset
        mask = self.model.bilm.to_device(kept).to(self.state.hidden).unsqueeze(1)
        return BiLMState(self.state.hidden * mask, self.state.cell * mask)

    @property
    def _own_streams(self) -> slice:
        """Streams of this process, as a slice of the streams of all processes."""
        n_own = len(self.state)
        return slice(self.processes.rank * n_own, (self.processes.rank + 1) * n_own)

    @property
    def _is_before_due(self) -> bool:
        """True if it is time to evaluate the initial model: after the warm-up of its softmax."""
        is_wanted = bool(self.config.pretraining.init) and self.progress.before is None
        return is_wanted and self.progress.step == self.softmax_warmup

    def _perplexity(self) -> Perplexity:
        self.model.eval()
        return perplexity(
            self.model,
            self.dev_corpus,
            max_items=self.settings.eval_tokens,
            processes=self.processes,
        )
