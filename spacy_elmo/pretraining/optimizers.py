"""Optimizers, and the schedule of the learning rate."""

import math
from typing import Any, Optional, cast

import torch
from torch import Tensor
from torch.nn.utils import clip_grad_norm_

from ..bilm.softmax import AdaptiveSoftmax, LanguageModelSoftmax, SoftmaxRows
from ..language_model.model import LanguageModel
from .config import TrainingSettings
from .muon import Muon, muon_groups

# Adam's betas, and the tokens of a step for which beta2 is meant.
BETA1, BETA2, BETA2_TOKENS = 0.9, 0.999, 2560


class Optimizers:
    """Optimizers of the biLM and of the softmax.

    A step updates only weights that have a gradient: not the biLM while only the softmax is
    trained, and only the rows of the softmax that are targets or candidates. With Adagrad (Duchi et
    al. 2011), the result is the same as with all rows. With Adam (Kingma & Ba 2015), it is an
    approximation: the moments of the other rows stay the same. With `optimizer = "muon"`, Muon
    trains the biLM's matrices, with its own learning rate, and Adam trains all other weights.

    settings (TrainingSettings): The settings.
    model (LanguageModel): The model to train.
    product_dtype (Optional[torch.dtype]): Dtype of Muon's matrix products. Default: the dtype of
        the weights.
    """

    def __init__(
        self,
        settings: TrainingSettings,
        model: LanguageModel,
        product_dtype: Optional[torch.dtype] = None,
    ):
        self.settings = settings
        self.softmax = model.softmax
        self.bilm_weights = list(model.bilm.parameters())
        matrices = muon_groups(model.bilm) if settings.optimizer == "muon" else []
        rates = {"lr": settings.advanced.muon_learn_rate, "weight_decay": settings.weight_decay}
        taken = {id(weight) for group in matrices for weight in group["params"]}
        rest = [weight for weight in self.bilm_weights if id(weight) not in taken]
        self.bilm_optimizer = _make(
            settings, rest, by_rows=False, weight_decay=settings.weight_decay
        )
        known = {id(weight) for weight in self.bilm_weights}
        own = [weight for weight in model.softmax.parameters() if id(weight) not in known]
        # No softmax has weight decay: with it, a step would change all rows of the table.
        by_rows = not isinstance(model.softmax, AdaptiveSoftmax)
        self.softmax_optimizer = _make(settings, own, by_rows=by_rows, weight_decay=0.0)
        self.by_name = {"bilm": self.bilm_optimizer, "softmax": self.softmax_optimizer}
        if matrices:
            self.by_name["matrices"] = Muon(matrices, **rates, product_dtype=product_dtype)

    def softmax_gradients(self, rows: Optional[SoftmaxRows]) -> list[Tensor]:
        """Return the gradients of the softmax.

        Clusters of an adaptive softmax that have no target get zeros, so that all processes have
        the same number of gradients.

        rows (Optional[SoftmaxRows]): The rows that this step trains, with their gradients. None for
            an adaptive softmax: its weights have the gradients.
        """
        weights = list(self.softmax.parameters()) if rows is None else [rows.weight, rows.bias]
        for weight in weights:
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
        return [weight.grad for weight in weights if weight.grad is not None]

    def clip(self, rows: Optional[SoftmaxRows]) -> Tensor:
        """Scale down all gradients if their common norm is above `grad_clip`.

        If the biLM and the softmax share a table, this first adds the gradients of the softmax rows
        to the gradient of the table.

        RETURNS (Tensor): The norm before clipping, a scalar.
        """
        if self.settings.share_embedding_softmax and rows is not None:
            self._join(rows)
        own = self.softmax.parameters() if rows is None else (rows.weight, rows.bias)
        return clip_grad_norm_([*self.bilm_weights, *own], self.settings.grad_clip)

    # Without this, PyTorch warns that it does not check sparse tensors.
    @torch.sparse.check_sparse_tensor_invariants(False)
    def step(self, learn_rate: float, rows: Optional[SoftmaxRows]) -> None:
        """Update the weights, and delete the gradients.

        learn_rate (float): The learning rate. Muon's learning rate changes in proportion.
        rows (Optional[SoftmaxRows]): The softmax rows of this step, with their gradients. None for
            an adaptive softmax.
        """
        if rows is not None:
            index = rows.words.unsqueeze(0)
            is_shared = self.settings.share_embedding_softmax
            for name in ("bias",) if is_shared else ("weight", "bias"):
                weight, grad = getattr(self.softmax, name), getattr(rows, name).grad
                weight.grad = torch.sparse_coo_tensor(index, grad, weight.shape, is_coalesced=True)
        muon_learn_rate = (
            learn_rate / self.settings.learn_rate * self.settings.advanced.muon_learn_rate
        )
        for name, optimizer in self.by_name.items():
            for group in optimizer.param_groups:
                group["lr"] = muon_learn_rate if name == "matrices" else learn_rate
            optimizer.step()
            optimizer.zero_grad()

    def _join(self, rows: SoftmaxRows) -> None:
        """Move the gradients of softmax rows to the table that encoder and softmax share."""
        table = cast(LanguageModelSoftmax, self.softmax).weight
        if table.grad is None:
            table.grad = torch.zeros_like(table)
        assert rows.weight.grad is not None
        table.grad.index_add_(0, rows.words, rows.weight.grad)
        rows.weight.grad = torch.zeros_like(rows.weight)

    def state_dict(self) -> dict[str, Any]:
        """Return the states of the optimizers, for `load_state_dict`."""
        return {name: optimizer.state_dict() for name, optimizer in self.by_name.items()}

    def load_state_dict(self, states: dict[str, Any]) -> None:
        """Restore the moments of the optimizers from the result of `state_dict`.

        The states may be from another device, or from a run with another batch size. So each
        optimizer keeps two settings of its own: `fused`, because the fused Adagrad of the CPU does
        not exist on a GPU, and `betas`, because they depend on the batch size.
        """
        for name, optimizer in self.by_name.items():
            groups = [
                {**group, **{name: own[name] for name in ("fused", "betas") if name in own}}
                for group, own in zip(states[name]["param_groups"], optimizer.param_groups)
            ]
            optimizer.load_state_dict({**states[name], "param_groups": groups})


def learn_rate_factor(
    settings: TrainingSettings, step: int, fraction_done: float, softmax_warmup: int = 0
) -> float:
    """Compute the factor of `learn_rate` for a step: a linear warm-up, then the decay.

    settings (TrainingSettings): The settings.
    step (int): Number of finished steps.
    fraction_done (float): Finished part of the run, 0 to 1.
    softmax_warmup (int): Number of steps at the start of the run that train only the softmax. After
        these steps, the warm-up starts again.
    RETURNS (float): The factor, 0 to 1.
    """
    since = step if step < softmax_warmup else step - softmax_warmup
    warm = min(1.0, (since + 1) / max(1, settings.warmup_steps))
    if step < softmax_warmup or settings.decay == "none":
        return warm
    decayed = max(0.0, 1.0 - (1.0 - fraction_done) / settings.advanced.decay_share)
    if settings.decay == "linear":
        return warm * (1.0 - decayed)
    if settings.decay == "cosine":
        return warm * 0.5 * (1.0 + math.cos(math.pi * decayed))
    return warm * math.sqrt(max(1, settings.warmup_steps) / max(settings.warmup_steps, since + 1))


def beta2_of(step_tokens: int) -> float:
    """Return Adam's beta2: its moving average of squared gradients has a half-life in tokens.

    With the usual 0.999 and steps of 2,560 tokens, the half-life is 1.8 million tokens. Larger
    steps get a lower beta2 with the same half-life (Marek et al. 2025, arXiv 2507.07101).
    Otherwise, the average would remember most of a run. Smaller steps keep 0.999.

    step_tokens (int): Number of tokens that all processes read in a step.
    RETURNS (float): beta2.
    """
    return BETA2 ** max(1.0, step_tokens / BETA2_TOKENS)


def _make(
    settings: TrainingSettings,
    weights: list[torch.nn.Parameter],
    *,
    by_rows: bool,
    weight_decay: float,
) -> torch.optim.Optimizer:
    rate = settings.learn_rate
    betas = BETA1, beta2_of(settings.batch_size * settings.unroll_steps)
    if settings.optimizer == "adagrad":
        fused = None if by_rows or weights[0].is_cuda else True  # on CPUs, for dense gradients
        return torch.optim.Adagrad(weights, lr=rate, initial_accumulator_value=1.0, fused=fused)
    if by_rows:
        return torch.optim.SparseAdam(weights, lr=rate, betas=betas)
    if settings.optimizer == "adamw":
        return torch.optim.AdamW(
            weights, lr=rate, betas=betas, weight_decay=weight_decay, fused=True
        )
    return torch.optim.Adam(weights, lr=rate, betas=betas, fused=True)
