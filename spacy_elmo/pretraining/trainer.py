"""The training loop."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Optional

import torch
import torch.nn.functional as F

from ..bilm.model import BiLM, BiLMState
from ..bilm.softmax import LanguageModelSoftmax
from .batches import Streams, TrainingBatches, Window
from .config import PretrainingConfig, TrainingSettings
from .corpus import Corpus
from .language_model import LanguageModel
from .perplexity import Perplexity, perplexity
from .vocabulary import Vocabulary


@dataclass
class Progress:
    """How far a run has come.

    step (int): Steps done.
    tokens (int): Items read, in one direction.
    seconds (float): Spent training, evaluation left out.
    sampled_loss (float): Mean of both directions since the last evaluation, in
        nats; not comparable with a perplexity.
    best (Optional[float]): Lowest held-out perplexity so far.
    """

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    sampled_loss: float = math.nan
    best: Optional[float] = None
    _losses: list[float] = field(default_factory=list)

    @property
    def tokens_per_second(self) -> float:
        """RETURNS (float): Mean speed of the training steps."""
        return self.tokens / self.seconds if self.seconds else 0.0


class Trainer:
    """Trains a language model on a corpus.

    config (PretrainingConfig): The settings.
    train (Corpus): The text to train on.
    dev (Corpus): Held-out text.
    """

    def __init__(self, config: PretrainingConfig, train: Corpus, dev: Corpus):
        self.config = config
        self.settings: TrainingSettings = config.training
        self.train_corpus, self.dev_corpus = train, dev
        torch.manual_seed(config.seed)
        vocabulary = Vocabulary.from_corpus(train, **config.vocabulary.model_dump())
        bilm = BiLM(config.bilm)
        softmax = LanguageModelSoftmax(n_words=len(vocabulary), width=config.bilm.projection_dim)
        self.model = LanguageModel(bilm, softmax, vocabulary)
        self.batches = TrainingBatches(
            Streams(train),
            batch_size=self.settings.batch_size,
            unroll_steps=self.settings.unroll_steps,
            seed=config.seed,
        )
        self.words = vocabulary.ids_of(train.types)
        self.state: BiLMState = bilm.zero_state(self.batches.batch_size)
        self.optimizer = _optimizer(self.settings, self.model)
        self.progress = Progress()

    @property
    def fraction_done(self) -> float:
        """RETURNS (float): Part of the run that is over, by the nearest limit, 0 to 1."""
        steps = self.progress.step
        limits = [
            (steps, self.settings.max_epochs * self.batches.steps_per_epoch),
            (steps, self.settings.max_steps),
            (self.progress.seconds, self.settings.max_minutes * 60),
        ]
        return min(1.0, max((done / limit for done, limit in limits if limit), default=0.0))

    def run(
        self,
        *,
        on_step: Callable[["Trainer"], None] = lambda trainer: None,
        on_evaluation: Callable[["Trainer", Perplexity, bool], None],
    ) -> None:
        """Train to the first limit, evaluating at intervals and at the end.

        on_step (Callable): Called after every step.
        on_evaluation (Callable): Called with the figures, and whether they are the best.
        """
        evaluated = -1
        while self.fraction_done < 1.0:
            started = time.perf_counter()
            self.step(self.batches.at(self.progress.step))
            self.progress.seconds += time.perf_counter() - started
            on_step(self)
            if self.progress.step % self.settings.eval_frequency == 0:
                on_evaluation(self, *self.evaluate())
                evaluated = self.progress.step
        if evaluated != self.progress.step:
            on_evaluation(self, *self.evaluate())

    def step(self, window: Window) -> float:
        """One update.

        window (Window): What to learn from.
        RETURNS (float): The sampled loss.
        RAISES (FloatingPointError): The loss is not finite.
        """
        self.model.train()
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.learn_rate * self._learn_rate_factor()
        contexts, state = self.model.contexts(
            window, self.train_corpus.types, self._reset(), dropout=self.settings.dropout
        )
        negatives, counts = self.model.softmax.draw_negatives(self.settings.n_negatives)
        targets = torch.from_numpy(self.words[window.targets]).to(self.model.bilm.device)
        losses = [
            self.model.softmax.sampled_loss(
                F.dropout(contexts[i], self.settings.dropout), targets[i], negatives, counts
            )
            for i in range(2)
        ]
        loss = (losses[0] + losses[1]) / 2
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.grad_clip)
        value = loss.item()
        if not math.isfinite(value):
            raise FloatingPointError(
                f"the loss became {value} at step {self.progress.step}: lower learn_rate "
                f"({self.settings.learn_rate}) or grad_clip ({self.settings.grad_clip})"
            )
        self.optimizer.step()
        self.state = state.detach()
        self.progress.step += 1
        self.progress.tokens += window.inputs.shape[1]
        self.progress._losses.append(value)
        return value

    def _reset(self) -> BiLMState:
        """The carried state, some rows of it back to zeros."""
        kept = torch.rand(len(self.state)) >= self.settings.state_reset
        kept = kept.to(self.state.hidden).unsqueeze(1)
        return BiLMState(self.state.hidden * kept, self.state.cell * kept)

    def evaluate(self) -> tuple[Perplexity, bool]:
        """RETURNS (Tuple[Perplexity, bool]): The held-out figures, and whether
        they are the best so far."""
        figures = perplexity(self.model, self.dev_corpus, n_streams=self.settings.eval_streams)
        losses, self.progress._losses = self.progress._losses, []
        self.progress.sampled_loss = sum(losses) / len(losses) if losses else math.nan
        is_best = self.progress.best is None or figures.mean < self.progress.best
        if is_best:
            self.progress.best = figures.mean
        return figures, is_best

    def report(self, figures: Perplexity) -> dict[str, Any]:
        """RETURNS (dict): One line of `metrics.jsonl`."""
        progress = self.progress
        return {
            "step": progress.step,
            "epoch": progress.step / self.batches.steps_per_epoch,
            "tokens": progress.tokens,
            "seconds": round(progress.seconds, 2),
            "tokens_per_second": round(progress.tokens_per_second, 1),
            "learn_rate": self.optimizer.param_groups[0]["lr"],
            "sampled_loss": progress.sampled_loss,
            "perplexity": figures.to_dict(),
        }

    def _learn_rate_factor(self) -> float:
        warm = min(1.0, (self.progress.step + 1) / max(1, self.settings.warmup_steps))
        return warm * (1.0 - self.fraction_done if self.settings.decay == "linear" else 1.0)


def _optimizer(settings: TrainingSettings, model: LanguageModel) -> torch.optim.Optimizer:
    if settings.optimizer == "adagrad":
        return torch.optim.Adagrad(
            model.parameters(), lr=settings.learn_rate, initial_accumulator_value=1.0
        )
    return torch.optim.Adam(model.parameters(), lr=settings.learn_rate, foreach=True)
