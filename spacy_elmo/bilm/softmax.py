"""Softmax of the language model over a vocabulary, shared by both directions."""

import math
from typing import NamedTuple, Optional

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..frozen.softmax import FrozenSoftmax, adaptive_cutoffs
from .meta_device import on_meta_device
from .sampled_softmax import SampledSoftmaxLoss

# Maximum number of logits in memory.
CHUNK_LOGITS = 2**24
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

    Only the copies get a gradient.

    words (Tensor): Word ids, in ascending order. *Shape:* `(r,)`
    weight (Tensor): *Shape:* `(r, P)`
    bias (Tensor): *Shape:* `(r,)`
    candidates (Candidates): The candidates. `words` contains their words and the targets.
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
        self.weight = nn.Parameter(torch.randn(n_words, width) / math.sqrt(width))
        self.bias = nn.Parameter(torch.zeros(n_words))

    def log_inclusion(self, words: Tensor, n_draws: int) -> Tensor:
        """Compute the log-probability that a word is among the negatives.

        The probability is `1 - (1 - q)^n`, with the log-uniform
        `q = (log(k + 2) - log(k + 1)) / log(V + 1)` for the word of rank k.

        words (Tensor): Word ids, which equal the ranks of the words. Any shape.
        n_draws (int): Number of draws, n.
        RETURNS (Tensor): Natural logarithm of the probability, same shape.
        """
        ranks = words.double()
        probability = torch.log1p(1.0 / (ranks + 1.0)) / math.log(len(self.weight) + 1)
        inclusion = -torch.expm1(n_draws * torch.log1p(-probability))
        return inclusion.log().to(self.weight.dtype)

    def draw_negatives(
        self, n_draws: int, generator: Optional[torch.Generator] = None
    ) -> Candidates:
        """Draw random words with replacement, with a log-uniform distribution over the ranks.

        A word that is drawn several times becomes one candidate. Otherwise the loss would be
        biased.

        n_draws (int): Number of draws.
        generator (Optional[torch.Generator]): Random number generator, on the CPU.
        RETURNS (Candidates): The different words that were drawn.
        """
        uniform = torch.rand(n_draws, generator=generator, dtype=torch.float64)
        ranks = torch.exp(uniform * math.log(len(self.weight) + 1)) - 1.0
        words = torch.unique(ranks.long().clamp_(0, len(self.weight) - 1))
        return Candidates(words.to(self.weight.device), n_draws)

    def all_words(self) -> Candidates:
        """Return the whole vocabulary as candidates, for the full softmax."""
        return Candidates(torch.arange(len(self.weight), device=self.weight.device))

    @torch.no_grad()
    def rows(self, targets: Tensor, candidates: Candidates) -> SoftmaxRows:
        """Copy the weights and biases of targets and candidates, so that only these get a gradient.

        targets (Tensor): Word ids. *Shape:* `(n,)`
        candidates (Candidates): The candidates.
        RETURNS (SoftmaxRows): Leaf tensors that require a gradient.
        """
        index = candidates.words
        if candidates.n_draws:
            index = torch.unique(torch.cat([targets, index]))
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

        If the candidates were drawn, the log-probability of being drawn is subtracted from each
        logit, including the logit of the target. A negative that equals the target does not count.
        So the optimum is the same as with the full softmax (Jean et al. 2015). TensorFlow's
        `sampled_softmax_loss`, which bilm-tf uses, does the same. The loss is not a
        log-likelihood.

        contexts (Tensor): Context vectors. *Shape:* `(n, P)`
        targets (Tensor): Word ids. *Shape:* `(n,)`
        rows (SoftmaxRows): Result of `rows` for these targets. All contexts have the same
            candidates.
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
        RETURNS (float): The sum.
        """
        size = max(1, CHUNK_LOGITS // len(self.weight))
        total = 0.0
        for start in range(0, len(contexts), size):
            logits = F.linear(contexts[start : start + size], self.weight, self.bias)
            loss = F.cross_entropy(logits, targets[start : start + size], reduction="none")
            total += loss.double().sum().item()
        return total

    @torch.no_grad()
    def log_probabilities(self, contexts: Tensor) -> Tensor:
        """Compute the log-probability of each word with the full softmax.

        contexts (Tensor): Context vectors. *Shape:* `(n, P)`
        RETURNS (Tensor): float64. *Shape:* `(n, V)`
        """
        return F.linear(contexts, self.weight, self.bias).double().log_softmax(dim=1)


class AdaptiveSoftmax(nn.Module):
    """PyTorch's adaptive softmax (Grave et al. 2017), with smaller weights for rare words.

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
        """Compute the mean negative log-probability of the targets.

        contexts (Tensor): Context vectors. *Shape:* `(n, P)`
        targets (Tensor): Word ids. *Shape:* `(n,)`
        RETURNS (Tensor): A scalar, in nats.
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

    @torch.no_grad()
    def log_probabilities(self, contexts: Tensor) -> Tensor:
        """Compute the log-probability of each word.

        contexts (Tensor): Context vectors. *Shape:* `(n, P)`
        RETURNS (Tensor): float64. *Shape:* `(n, V)`
        """
        return self.layers.log_prob(contexts).double()


Softmax = LanguageModelSoftmax | AdaptiveSoftmax


def make_softmax(kind: str, *, n_words: int, width: int) -> Softmax:
    """Make a softmax layer.

    kind (str): "sampled", "full" or "adaptive".
    n_words (int): Size of the vocabulary, V.
    width (int): Size of a context vector, P.
    RETURNS (Union[LanguageModelSoftmax, AdaptiveSoftmax]): The layer.
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


def thaw(frozen: FrozenSoftmax) -> Softmax:
    """Return a trainable softmax with a copy of the frozen weights."""
    n_words, width = frozen.sizes
    with on_meta_device():
        softmax = make_softmax(frozen.kind, n_words=n_words, width=width)
    arrays = frozen.arrays().items()
    copies = {name: torch.from_numpy(np.array(values, dtype="float32")) for name, values in arrays}
    softmax.load_state_dict(copies, assign=True)
    return softmax
