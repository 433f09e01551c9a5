"""Softmax of the language model over a vocabulary, and its loss over candidate words.

The loss is a scalar, so its gradients are known in the forward pass, except for one factor. The
forward pass reads the contexts in chunks, and computes the gradients while the logits of a chunk
are in memory. The alternative, autograd, would keep the logits of all contexts for the backward
pass.

Two details made the loss 1.06 times as fast. Scale factors are applied to vectors and small
matrices, not to the large matrix of exponentials. Logits are in bits, because powers of two are
faster than exponentials.

Invariant: all candidates are different, and a target is never its own negative.
"""

import math
from typing import Any, NamedTuple, Optional

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..frozen.softmax import FrozenSoftmax, adaptive_cutoffs
from .meta_device import on_meta_device
from .transfer import to_device

# Maximum number of logits in memory. On a CPU, the loss has a lower maximum.
CHUNK_LOGITS, LOSS_LOGITS = 2**24, 2**19
# Bits per nat.
_BITS = 1.0 / math.log(2.0)
KINDS = ("sampled", "full", "adaptive")


class Candidates(NamedTuple):
    """Candidate words of a training step, against which the loss compares the targets.

    words (Tensor): Different word ids. *Shape:* `(m,)`
    n_draws (int): Number of random draws; 0 if the candidates are the whole vocabulary.
    """

    words: Tensor
    n_draws: int = 0


class SoftmaxRows(NamedTuple):
    """Copies of the weights and biases of those words that a training step uses.

    The copies get a gradient; the weights of the softmax get none.

    words (Tensor): Word ids of candidates and targets, in ascending order. *Shape:* `(r,)`
    weight (Tensor): *Shape:* `(r, P)`
    bias (Tensor): *Shape:* `(r,)`
    """

    words: Tensor
    weight: Tensor
    bias: Tensor
    candidates: Candidates


class LanguageModelSoftmax(nn.Module):
    """Softmax over a vocabulary. Training compares a target with all words, or with random words.

    The random words, called negatives, have a log-uniform distribution (Jean et al. 2015). So for
    sampling, the vocabulary must be in descending order of count. Evaluation uses all words.

    n_words (int): Size of the vocabulary, V.
    width (int): Size of a context vector, P.
    """

    def __init__(self, *, n_words: int, width: int):
        super().__init__()
        # bilm-tf has the same initial values.
        self.weight = nn.Parameter(torch.randn(n_words, width) / math.sqrt(width))
        self.bias = nn.Parameter(torch.zeros(n_words))

    def log_inclusion(self, words: Tensor, n_draws: int) -> Tensor:
        """Compute the natural logarithm of the probability that a word is among the negatives.

        The probability after n draws is `1 - (1 - q)^n`, with the log-uniform
        `q = (log(k + 2) - log(k + 1)) / log(V + 1)` for the word of rank k.

        words (Tensor): Word ids, which equal the ranks of the words. Any shape.
        """
        ranks = words.double()
        probability = torch.log1p(1.0 / (ranks + 1.0)) / math.log(len(self.weight) + 1)
        inclusion = -torch.expm1(n_draws * torch.log1p(-probability))
        return inclusion.log().to(self.weight.dtype)

    def draw_negatives(
        self, n_draws: int, generator: Optional[torch.Generator] = None
    ) -> Candidates:
        """Draw random words with replacement, with a log-uniform distribution over the ranks.

        A word that is drawn several times becomes one candidate, because the loss would be biased
        otherwise. The candidates are on the CPU.

        generator (Optional[torch.Generator]): Random number generator, on the CPU.
        """
        # float32 has 2^24 random numbers, too few to give each of 800,000 words its probability.
        uniform = torch.rand(n_draws, generator=generator, dtype=torch.float64)
        ranks = torch.exp(uniform * math.log(len(self.weight) + 1)) - 1.0
        # Rounding may give a rank of V.
        words = torch.unique(ranks.long().clamp_(0, len(self.weight) - 1))
        return Candidates(words, n_draws)

    def all_words(self) -> Candidates:
        """Return the whole vocabulary as candidates, for the full softmax."""
        return Candidates(torch.arange(len(self.weight), device=self.weight.device))

    @torch.no_grad()
    def rows(self, targets: Tensor, candidates: Candidates) -> SoftmaxRows:
        """Copy the weights and biases of targets and candidates. Only the copies get a gradient.

        targets (Tensor): Word ids, on the CPU: a GPU would make the CPU wait for the number of
            different words. *Shape:* `(n,)`
        RETURNS (SoftmaxRows): Leaf tensors that require a gradient.
        """
        index = candidates.words
        # For the full softmax, all rows are used anyway, and need no sort.
        if candidates.n_draws:
            index = torch.unique(torch.cat([targets, index]))
        device = self.weight.device
        index, words = (to_device(each, device) for each in (index, candidates.words))
        candidates = candidates._replace(words=words)
        weight, bias = self.weight.index_select(0, index), self.bias.index_select(0, index)
        return SoftmaxRows(index, weight.requires_grad_(), bias.requires_grad_(), candidates)

    def loss(
        self,
        contexts: Tensor,
        targets: Tensor,
        rows: SoftmaxRows,
        product_dtype: Optional[torch.dtype] = None,
    ) -> Tensor:
        """Compute the mean cross-entropy of the targets against the candidates.

        If the candidates are negatives, each logit (also the target's) is reduced by the
        log-probability that its word is drawn. A negative that equals the target does not count. So
        the optimum is the same as with the full softmax (Jean et al. 2015), but the loss is not a
        log-likelihood. bilm-tf does the same with TensorFlow's `sampled_softmax_loss`.

        contexts (Tensor): Context vectors. *Shape:* `(n, P)`
        targets (Tensor): Word ids. *Shape:* `(n,)`
        rows (SoftmaxRows): Result of `rows` for these targets.
        product_dtype (Optional[torch.dtype]): Type of the matrix products for gradients. Default:
            the type of the contexts.
        RETURNS (Tensor): A scalar, in nats.
        """
        candidates = rows.candidates
        both = (targets, candidates.words)
        at = torch.searchsorted(rows.words, torch.cat(both)).split([len(words) for words in both])
        offsets = [contexts.new_zeros(len(words)) for words in both]
        if candidates.n_draws:
            for offset, words in zip(offsets, both):
                offset -= self.log_inclusion(words, candidates.n_draws)
        return SampledSoftmaxLoss.apply(
            contexts, rows.weight, rows.bias, *at, *offsets, product_dtype
        )

    @torch.no_grad()
    def negative_log_likelihood(self, contexts: Tensor, targets: Tensor) -> float:
        """Compute the sum of the targets' negative log-probabilities, in nats.

        The result is exact: it uses the full softmax, in chunks that limit the memory.

        contexts (Tensor): Context vectors. *Shape:* `(n, P)`
        targets (Tensor): Word ids. *Shape:* `(n,)`
        """
        size = max(1, CHUNK_LOGITS // len(self.weight))
        total = 0.0
        for start in range(0, len(contexts), size):
            logits = F.linear(contexts[start : start + size], self.weight, self.bias)
            loss = F.cross_entropy(logits, targets[start : start + size], reduction="none")
            total += loss.double().sum().item()
        return total


class AdaptiveSoftmax(nn.Module):
    """PyTorch's adaptive softmax (Grave et al. 2017), with fewer weights per rare word.

    The loss is an exact log-likelihood. The vocabulary must be in descending order of count.

    n_words (int): Size of the vocabulary, V.
    width (int): Size of a context vector, P.
    """

    def __init__(self, *, n_words: int, width: int):
        super().__init__()
        self.layers = nn.AdaptiveLogSoftmaxWithLoss(
            width, n_words, adaptive_cutoffs(n_words), div_value=2.0, head_bias=True
        )

    def loss(self, contexts: Tensor, targets: Tensor) -> Tensor:
        """Compute the mean negative log-probability of the targets, in nats.

        contexts (Tensor): Context vectors. *Shape:* `(n, P)`
        targets (Tensor): Word ids. *Shape:* `(n,)`
        """
        return self.layers(contexts, targets).loss

    @torch.no_grad()
    def negative_log_likelihood(self, contexts: Tensor, targets: Tensor) -> float:
        """Compute the sum of the targets' negative log-probabilities, in nats."""
        total = 0.0
        for start in range(0, len(contexts), 1024):
            part = slice(start, start + 1024)
            total -= self.layers(contexts[part], targets[part]).output.double().sum().item()
        return total


Softmax = LanguageModelSoftmax | AdaptiveSoftmax


def make_softmax(kind: str, *, n_words: int, width: int) -> Softmax:
    """Make a softmax layer.

    kind (str): "sampled", "full" or "adaptive".
    RAISES (ValueError): The kind is unknown.
    """
    if kind not in KINDS:
        raise ValueError(f"softmax must be one of {', '.join(KINDS)}, got {kind!r}")
    make = AdaptiveSoftmax if kind == "adaptive" else LanguageModelSoftmax
    return make(n_words=n_words, width=width)


def freeze(softmax: Softmax) -> FrozenSoftmax:
    """Return a frozen softmax with a copy of the weights, for evaluation without PyTorch."""
    state = softmax.state_dict().items()
    return FrozenSoftmax(
        {name: value.to("cpu", torch.float32, copy=True).numpy() for name, value in state}
    )


def thaw_softmax(frozen: FrozenSoftmax) -> Softmax:
    """Return a trainable softmax with a copy of the frozen weights."""
    n_words, width = frozen.sizes
    with on_meta_device():
        softmax = make_softmax(frozen.kind, n_words=n_words, width=width)
    arrays = frozen.arrays().items()
    copies = {name: torch.from_numpy(np.array(values, dtype="float32")) for name, values in arrays}
    softmax.load_state_dict(copies, assign=True)
    return softmax


class SampledSoftmaxLoss(torch.autograd.Function):
    """Mean cross-entropy of the targets, by a softmax over the target and all other candidates.

    Let x be one of n contexts, w the weight of a candidate, b its bias plus its offset, and h the
    highest logit of x. Let Z = sum exp(x w + b - h) over candidates and target. The gradients are
    sums over candidates (dx) or contexts (dw, db):

        e = exp(x w + b - h),  s = 1 / (n Z),  dx = s e w,  dw = e (s x),  db = e s

    *Shapes:* contexts `(n, P)`, weight `(R, P)`, bias `(R,)`. Targets `(n,)` and candidates `(m,)`
    are row numbers of the weight. All candidates are different. `target_offset` `(n,)` and
    `candidate_offset` `(m,)` are added to the logits. The result is a scalar, in nats.
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,
        contexts: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        candidates: Tensor,
        target_offset: Tensor,
        candidate_offset: Tensor,
        product_dtype: Optional[torch.dtype] = None,
    ) -> Tensor:
        """Compute the loss, and store its gradients for `backward`."""
        dtype = product_dtype or contexts.dtype
        candidate_weight = weight.index_select(0, candidates)
        low_weight = candidate_weight.to(dtype)
        offset = bias.index_select(0, candidates) + candidate_offset
        target_weight = weight.index_select(0, targets)
        positive = (
            (contexts * target_weight).sum(dim=1) + bias.index_select(0, targets) + target_offset
        )
        # Column of each target among the candidates, or -1. Its logit is excluded there, because
        # the target is counted on its own, once.
        columns = torch.full((len(weight),), -1, dtype=torch.int64, device=weight.device)
        columns[candidates] = torch.arange(len(candidates), device=weight.device)
        hits = columns[targets]
        d_contexts, d_positive = torch.empty_like(contexts), torch.empty_like(positive)
        d_candidates, d_offset = torch.zeros_like(candidate_weight), torch.zeros_like(offset)
        total = contexts.new_zeros(())
        positive_bits, offset_bits = positive * _BITS, offset * _BITS
        most = LOSS_LOGITS if contexts.is_cpu else CHUNK_LOGITS
        size = max(1, most // max(1, len(candidates)))
        for start in range(0, len(contexts), size):
            part = slice(start, start + size)
            logits = torch.addmm(offset_bits, contexts[part] * _BITS, candidate_weight.t())
            own = hits[part].unsqueeze(1)
            excluded = torch.where(own >= 0, -torch.inf, 0.0).to(logits.dtype)
            logits.scatter_add_(1, own.clamp(min=0), excluded)
            # Subtracted before the powers, so that none overflows.
            highest = torch.maximum(logits.amax(dim=1), positive_bits[part])
            exponentials = logits.sub_(highest.unsqueeze(1)).exp2_()
            of_target = torch.exp2(positive_bits[part] - highest)
            norm = exponentials.sum(dim=1) + of_target
            total += (norm.log() + highest / _BITS - positive[part]).sum()
            d_positive[part] = (of_target / norm - 1.0) / len(contexts)
            scale = 1.0 / (norm * len(contexts))
            low, scaled = exponentials.to(dtype), contexts[part] * scale.unsqueeze(1)
            torch.mul(torch.mm(low, low_weight), scale.unsqueeze(1), out=d_contexts[part])
            if dtype == d_candidates.dtype:
                d_candidates.addmm_(low.t(), scaled)
            else:
                d_candidates += torch.mm(low.t(), scaled.to(dtype))
            d_offset.addmv_(exponentials.t(), scale)
        d_contexts.addcmul_(d_positive.unsqueeze(1), target_weight)
        d_weight = torch.zeros_like(weight).index_copy_(0, candidates, d_candidates)
        d_weight.index_add_(0, targets, contexts * d_positive.unsqueeze(1))
        d_bias = torch.zeros_like(bias).index_copy_(0, candidates, d_offset)
        d_bias.index_add_(0, targets, d_positive)
        ctx.save_for_backward(d_contexts, d_weight, d_bias)
        return total / len(contexts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Optional[Tensor], ...]:  # type: ignore[override]
        """Multiply the stored gradients of contexts, weight and bias with the loss's gradient."""
        return (*(grad * gradient for gradient in ctx.saved_tensors), *[None] * 5)
