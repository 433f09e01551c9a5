"""The language model's softmax over a vocabulary, one for both directions."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Bound of the working memory: logits held at a time.
CHUNK_LOGITS = 2**24


class LanguageModelSoftmax(nn.Module):
    """Softmax layer with a sampled loss for training (Jean et al. 2015, with
    log-uniform negatives) and exact log-probabilities for evaluation. The
    vocabulary must stand by falling count.

    n_words (int): Size of the vocabulary, V.
    width (int): Size of a context vector, P.
    """

    def __init__(self, *, n_words: int, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(n_words, width) / math.sqrt(width))
        self.bias = nn.Parameter(torch.zeros(n_words))

    def log_expected_count(self, words: Tensor, n_negatives: int) -> Tensor:
        """How often each word is drawn among the negatives, in the mean:
        `n * (log(k + 2) - log(k + 1)) / log(V + 1)` for the word of rank k.

        words (Tensor): Word ids, which are ranks. Any shape.
        n_negatives (int): Draws.
        RETURNS (Tensor): Natural logarithm of the expected count, same shape.
        """
        ranks = words.to(self.weight.dtype)
        probability = torch.log1p(1.0 / (ranks + 1.0)) / math.log(len(self.weight) + 1)
        return torch.log(n_negatives * probability)

    def draw_negatives(self, n_negatives: int) -> tuple[Tensor, Tensor]:
        """Draw words log-uniformly by rank, with replacement.

        n_negatives (int): Draws.
        RETURNS (Tuple[Tensor, Tensor]): The ids of the words that were drawn, and
            how often each was. *Shape:* `(n_different,)`
        """
        uniform = torch.rand(n_negatives, device=self.weight.device, dtype=torch.float64)
        ranks = torch.exp(uniform * math.log(len(self.weight) + 1)) - 1.0
        words, counts = torch.unique(
            ranks.long().clamp_(0, len(self.weight) - 1), return_counts=True
        )
        return words, counts

    def sampled_loss(
        self, contexts: Tensor, targets: Tensor, negatives: Tensor, counts: Tensor
    ) -> Tensor:
        """Mean sampled-softmax loss, every logit less the logarithm of its
        word's expected count; a negative that is the target does not count.
        Not comparable with a log-likelihood.

        contexts (Tensor): *Shape:* `(n, P)`
        targets (Tensor): Word ids. *Shape:* `(n,)`
        negatives (Tensor): Different word ids, shared by all contexts. *Shape:* `(m,)`
        counts (Tensor): How often each was drawn. *Shape:* `(m,)`
        RETURNS (Tensor): A scalar, in nats.
        """
        n_draws = int(counts.sum())
        positive = (contexts * F.embedding(targets, self.weight)).sum(dim=1) + self.bias[targets]
        positive = positive - self.log_expected_count(targets, n_draws)
        offset = self.bias[negatives] - self.log_expected_count(negatives, n_draws) + counts.log()
        # One product gives every negative's logit less the positive's, and a
        # first column of zeros for the positive itself.
        ones = torch.ones_like(positive)
        left = torch.cat([contexts, -positive.unsqueeze(1), ones.unsqueeze(1)], dim=1)
        words = F.embedding(negatives, self.weight)
        right = torch.cat([words, torch.ones_like(words[:, :1]), offset.unsqueeze(1)], dim=1)
        logits = left @ F.pad(right, (0, 0, 1, 0)).t()
        self._hide_hits(logits, targets, negatives)
        return F.cross_entropy(logits, torch.zeros_like(targets))

    @torch.no_grad()
    def _hide_hits(self, logits: Tensor, targets: Tensor, negatives: Tensor) -> None:
        """A probability of zero has no gradient: autograd need not know."""
        columns = torch.zeros(len(self.weight), dtype=torch.int64, device=logits.device)
        columns[negatives] = torch.arange(1, len(negatives) + 1, device=logits.device)
        hits = columns[targets]
        rows = hits.nonzero().squeeze(1)
        logits[rows, hits[rows]] = -math.inf

    @torch.no_grad()
    def negative_log_likelihood(self, contexts: Tensor, targets: Tensor) -> float:
        """Exact, by the full softmax, in chunks of bounded memory.

        contexts (Tensor): *Shape:* `(n, P)`
        targets (Tensor): Word ids. *Shape:* `(n,)`
        RETURNS (float): Sum of the negative log-probabilities, in nats.
        """
        size = max(1, CHUNK_LOGITS // len(self.weight))
        total = 0.0
        for start in range(0, len(contexts), size):
            logits = F.linear(contexts[start : start + size], self.weight, self.bias)
            loss = F.cross_entropy(logits, targets[start : start + size], reduction="none")
            total += loss.double().sum().item()
        return total
