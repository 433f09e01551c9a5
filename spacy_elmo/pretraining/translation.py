"""The translation model that CoVe's encoder is trained in (McCann et al. 2017, section 3)."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from ..bilm.model import BiLM
from ..frozen.vocabulary import SENTENCE_END, SENTENCE_START, Vocabulary

DROPOUT = 0.2
IGNORED = -100  # positions without a word, in PyTorch's cross-entropy
N_DECODER_LAYERS = 2

State = list[tuple[Tensor, Tensor]]


class TranslationModel(nn.Module):
    """An encoder, and a decoder that attends to its outputs H. With z_t the embedding of word t
    of the translation and h~_0 = 0:

        h_t = LSTM([z_{t-1}; h~_{t-1}], h_{t-1})
        a_t = softmax(H (W_1 h_t + b_1))
        h~_t = tanh(W_2 [H^T a_t; h_t] + b_2)
        p(w_t | X, w_1 .. w_{t-1}) = softmax(W_out h~_t + b_out)

    encoder (BiLM): The encoder, of which the top layer is read.
    vocabulary (Vocabulary): Words of the translations.
    """

    def __init__(self, encoder: BiLM, vocabulary: Vocabulary):
        super().__init__()
        self.encoder = encoder
        self.vocabulary = vocabulary
        width = encoder.config.width
        self.embedding = nn.Embedding(len(vocabulary), width)
        sizes = [2 * width, *[width] * (N_DECODER_LAYERS - 1)]
        self.cells = nn.ModuleList(nn.LSTMCell(size, width) for size in sizes)
        self.attention = nn.Linear(width, width)
        self.combine = nn.Linear(2 * width, width)
        self.output = nn.Linear(width, len(vocabulary))

    def forward(self, sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> Tensor:
        """Predict each word of translations from those before it.

        sources (Sequence[Sequence[str]]): Tokens of sentences, none of them empty.
        targets (Sequence[Sequence[str]]): Tokens of their translations.
        RETURNS (Tensor): The sum over all words, `</S>` among them, of the negative
            log-likelihood, in nats.
        """
        memory, mask = self.encode(sources)
        read, wanted = self._ids(targets)
        embedded = F.dropout(self.embedding(read), DROPOUT, self.training)
        state, attended = self._start(memory)
        steps = []
        for step in embedded.unbind(1):
            attended, state = self._step(step, attended, state, memory, mask)
            steps.append(attended)
        logits = self.output(F.dropout(torch.stack(steps, dim=1), DROPOUT, self.training))
        return F.cross_entropy(
            logits.flatten(0, 1), wanted.flatten(), ignore_index=IGNORED, reduction="sum"
        )

    def encode(self, sources: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """
        sources (Sequence[Sequence[str]]): Tokens of sentences, none of them empty.
        RETURNS (Tuple[Tensor, Tensor]): H, padded, `(n, longest, 2P)`, and a mask that is
            True at its tokens, `(n, longest)`.
        """
        outputs = [layers[-1] for layers in self.encoder.embed(sources)[0]]
        lengths = torch.tensor([len(source) for source in sources])
        memory = pad_sequence(outputs, batch_first=True)
        return memory, torch.arange(memory.shape[1]) < lengths[:, None]

    def _start(self, memory: Tensor) -> tuple[State, Tensor]:
        zeros = memory.new_zeros(len(memory), memory.shape[2])
        return [(zeros, zeros)] * N_DECODER_LAYERS, zeros

    def _step(
        self, embedded: Tensor, attended: Tensor, state: State, memory: Tensor, mask: Tensor
    ) -> tuple[Tensor, State]:
        inputs, after = torch.cat([embedded, attended], dim=1), []
        for cell, before in zip(self.cells, state):
            after.append(cell(inputs, before))
            inputs = after[-1][0]
        scores = torch.bmm(memory, self.attention(inputs)[..., None]).squeeze(2)
        weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(1)
        context = torch.bmm(weights[:, None], memory).squeeze(1)
        return torch.tanh(self.combine(torch.cat([context, inputs], dim=1))), after

    def _ids(self, targets: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """What is read, and what is to be predicted. *Shape:* `(n, longest + 1)` each"""
        pairs = [([SENTENCE_START, *target], [*target, SENTENCE_END]) for target in targets]
        read, wanted = (
            [torch.from_numpy(self.vocabulary.ids_of(words)) for words in side]
            for side in zip(*pairs)
        )
        padded = pad_sequence(wanted, batch_first=True, padding_value=IGNORED)
        return pad_sequence(read, batch_first=True), padded
