"""bilm-tf's training step as an ordinary PyTorch user would port it: the baseline.

Independent of the package: only the sizes (`BiLMConfig`) and the text (`Corpus`)
come from it. Every token of the batch is spelled out in 50 characters and goes
through the CNN, each direction has its own input batch, the LSTMs are a Python
loop over time, everything is float32 and every gradient dense.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spacy_elmo.frozen.config import BiLMConfig
from spacy_elmo.text.corpus import Corpus

START, END = "<S>", "</S>"
BOS, EOS, BOW, EOW, PAD = 257, 258, 259, 260, 261  # bilm-tf's, plus one
N_CHARACTERS = 262
UNKNOWN_ID, N_SPECIAL = 2, 3  # after <S> 0 and </S> 1
DROPOUT, LEARN_RATE, GRAD_CLIP = 0.1, 0.2, 10.0


class PlainText:
    """Both directions of a text, and the windows of each step: row `r` of the
    batch reads the r-th stretch of it.

    corpus (Corpus): The text.
    batch_size (int): Streams side by side, B.
    unroll_steps (int): Steps of a window, T.
    """

    def __init__(self, corpus: Corpus, *, batch_size: int, unroll_steps: int):
        inputs: list[list[np.ndarray]] = [[], []]
        targets: list[list[np.ndarray]] = [[], []]
        start, end = np.array([0], dtype="int32"), np.array([1], dtype="int32")
        for sentence in np.split(corpus.tokens, corpus.starts[1:]):
            words = sentence[1:]  # without its <S>
            inputs[0].append(np.concatenate([start, words]))
            targets[0].append(np.concatenate([words, end]))
            inputs[1].append(np.concatenate([end, words[::-1]]))
            targets[1].append(np.concatenate([words[::-1], start]))
        self.inputs = np.stack([np.concatenate(parts) for parts in inputs])
        self.targets = np.stack([np.concatenate(parts) for parts in targets])
        self.batch_size, self.unroll_steps = batch_size, unroll_steps

    def window(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """
        step (int): Which one, counted from 0.
        RETURNS (Tuple[numpy.ndarray, numpy.ndarray]): The token types read and those
            to predict. *Shape:* `(2, B, T)` each
        """
        n_items = self.inputs.shape[1]
        rows = np.arange(self.batch_size) * (n_items // self.batch_size)
        steps = np.arange(self.unroll_steps) + step * self.unroll_steps
        positions = (rows[:, None] + steps[None, :]) % n_items
        return self.inputs[:, positions], self.targets[:, positions]


def word_ids(corpus: Corpus, max_words: int) -> np.ndarray:
    """RETURNS (numpy.ndarray): The vocabulary's id of each token type: the rank by
    falling count after the special words, or that of `<UNK>`."""
    order = [i for i in np.argsort(-corpus.counts(), kind="stable") if i > 1]
    ids = np.full(len(corpus.types), UNKNOWN_ID, dtype="int64")
    chosen = order[: max_words - N_SPECIAL]
    ids[chosen] = np.arange(N_SPECIAL, N_SPECIAL + len(chosen))
    ids[:2] = 0, 1
    return ids


def character_table(types: list[str], max_characters: int) -> np.ndarray:
    """RETURNS (numpy.ndarray): Every type's characters, padded, as bilm-tf's
    vocabulary keeps them. *Shape:* `(n_types, max_characters)`"""
    table = np.full((len(types), max_characters), PAD, dtype="int16")
    for row, token in zip(table, types):
        if token in (START, END):
            spelled = [BOS if token == START else EOS]
        else:
            spelled = [byte + 1 for byte in token.encode("utf8", "ignore")[: max_characters - 2]]
        row[: len(spelled) + 2] = [BOW, *spelled, EOW]
    return table


def _max_over_time(features: Tensor) -> Tensor:
    """bilm-tf's `max_pool`; in PyTorch faster than `max` and `amax`, too."""
    return F.max_pool1d(features, features.shape[2]).squeeze(2)


class PlainEncoder(nn.Module):
    """Token vectors from characters: convolutions, highways, projection."""

    def __init__(self, sizes: BiLMConfig):
        super().__init__()
        dim, n_filters = sizes.char_embed_dim, sizes.n_filters
        self.embedding = nn.Embedding(N_CHARACTERS, dim)
        self.convolutions = nn.ModuleList(nn.Conv1d(dim, n, width) for width, n in sizes.filters)
        self.gates = nn.ModuleList(nn.Linear(n_filters, n_filters) for _ in range(sizes.n_highway))
        self.carries = nn.ModuleList(
            nn.Linear(n_filters, n_filters) for _ in range(sizes.n_highway)
        )
        self.projection = nn.Linear(n_filters, sizes.projection_dim)

    def forward(self, characters: Tensor) -> Tensor:
        """
        characters (Tensor): *Shape:* `(B, T, 50)`
        RETURNS (Tensor): *Shape:* `(B, T, P)`
        """
        batch_size, unroll_steps, _ = characters.shape
        embedded = self.embedding(characters.flatten(0, 1)).transpose(1, 2)
        pooled = [F.relu(_max_over_time(conv(embedded))) for conv in self.convolutions]
        vectors = torch.cat(pooled, dim=1)
        for gate, carry in zip(self.gates, self.carries):
            share = torch.sigmoid(gate(vectors))
            vectors = share * F.relu(carry(vectors)) + (1 - share) * vectors
        return self.projection(vectors).view(batch_size, unroll_steps, -1)


class PlainLSTM(nn.Module):
    """One layer in one direction, step by step."""

    def __init__(self, sizes: BiLMConfig):
        super().__init__()
        self.cell_clip, self.proj_clip = sizes.cell_clip, sizes.proj_clip
        self.gates = nn.Linear(2 * sizes.projection_dim, 4 * sizes.lstm_dim)
        self.projection = nn.Linear(sizes.lstm_dim, sizes.projection_dim, bias=False)

    def forward(
        self, inputs: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """
        inputs (Tensor): *Shape:* `(B, T, P)`
        hidden (Tensor): *Shape:* `(B, P)`
        cell (Tensor): *Shape:* `(B, D)`
        RETURNS (Tuple[Tensor, Tensor, Tensor]): The outputs and the state after them.
        """
        outputs = []
        for step in range(inputs.shape[1]):
            gates = self.gates(torch.cat([inputs[:, step], hidden], dim=1))
            i, j, f, o = gates.chunk(4, dim=1)
            cell = torch.sigmoid(f + 1.0) * cell + torch.sigmoid(i) * torch.tanh(j)
            cell = cell.clamp(-self.cell_clip, self.cell_clip)
            hidden = self.projection(torch.sigmoid(o) * torch.tanh(cell))
            hidden = hidden.clamp(-self.proj_clip, self.proj_clip)
            outputs.append(hidden)
        return torch.stack(outputs, dim=1), hidden, cell


class PlainSoftmax(nn.Module):
    """Sampled softmax as `tf.nn.sampled_softmax_loss`: log-uniform candidates shared
    by the batch, logits less the logarithm of their expected count, accidental
    hits removed. TensorFlow rejects repeated candidates; here they stay, which
    costs the same and saves the port a loop."""

    def __init__(self, *, n_words: int, width: int, n_negatives: int):
        super().__init__()
        self.n_words, self.n_negatives = n_words, n_negatives
        self.weight = nn.Embedding(n_words, width)
        self.bias = nn.Embedding(n_words, 1)
        nn.init.normal_(self.weight.weight, std=1.0 / math.sqrt(width))
        nn.init.zeros_(self.bias.weight)

    def draw(self) -> Tensor:
        """RETURNS (Tensor): Word ids, each with the probability of its rank."""
        uniform = torch.rand(self.n_negatives, dtype=torch.float64)
        ranks = torch.exp(uniform * math.log(self.n_words + 1)) - 1.0
        return ranks.long().clamp(0, self.n_words - 1)

    def log_expected(self, words: Tensor) -> Tensor:
        """RETURNS (Tensor): Logarithm of how often a word is drawn, in the mean."""
        share = torch.log1p(1.0 / (words + 1.0)) / math.log(self.n_words + 1)
        return torch.log(share * self.n_negatives)

    def forward(self, contexts: Tensor, targets: Tensor) -> Tensor:
        """
        contexts (Tensor): *Shape:* `(n, P)`
        targets (Tensor): *Shape:* `(n,)`
        RETURNS (Tensor): The mean loss.
        """
        negatives = self.draw()
        words = torch.cat([targets, negatives])
        weights, biases = self.weight(words), self.bias(words).squeeze(1)
        n = len(targets)
        positive = (contexts * weights[:n]).sum(dim=1) + biases[:n] - self.log_expected(targets)
        logits = F.linear(contexts, weights[n:], biases[n:] - self.log_expected(negatives))
        logits = logits.masked_fill(targets[:, None] == negatives[None, :], -1e9)
        logits = torch.cat([positive[:, None], logits], dim=1)
        return F.cross_entropy(logits, torch.zeros_like(targets))


class PlainModel(nn.Module):
    """The parts: one encoder, a stack of LSTMs each direction, one softmax."""

    def __init__(self, sizes: BiLMConfig, *, n_words: int, n_negatives: int):
        super().__init__()
        self.skip = sizes.use_skip_connections
        self.encoder = PlainEncoder(sizes)
        self.stacks = nn.ModuleList(
            nn.ModuleList(PlainLSTM(sizes) for _ in range(sizes.n_layers)) for _ in range(2)
        )
        self.softmax = PlainSoftmax(
            n_words=n_words, width=sizes.projection_dim, n_negatives=n_negatives
        )

    def forward(
        self, characters: Tensor, targets: Tensor, state: list[list[tuple[Tensor, Tensor]]]
    ) -> tuple[Tensor, list[list[tuple[Tensor, Tensor]]]]:
        """
        characters (Tensor): *Shape:* `(2, B, T, 50)`
        targets (Tensor): *Shape:* `(2, B, T)`
        state: Hidden and cell of each layer of each direction.
        RETURNS: The mean loss of both directions, the state after.
        """
        losses, after = [], []
        for direction, stack in enumerate(self.stacks):
            inputs = self.encoder(characters[direction])
            states = []
            for layer, lstm in enumerate(stack):
                inputs = F.dropout(inputs, DROPOUT)
                outputs, hidden, cell = lstm(inputs, *state[direction][layer])
                inputs = outputs + inputs if self.skip and layer else outputs
                states.append((hidden.detach(), cell.detach()))
            contexts = F.dropout(inputs, DROPOUT).flatten(0, 1)
            losses.append(self.softmax(contexts, targets[direction].flatten()))
            after.append(states)
        return (losses[0] + losses[1]) / 2, after


class PlainTrainer:
    """Trains the port.

    sizes (BiLMConfig): Sizes of the model.
    corpus (Corpus): The text.
    n_words (int): Most words of the vocabulary, the special ones included.
    n_negatives (int): Candidates of the softmax.
    batch_size (int): Streams side by side, B.
    unroll_steps (int): Steps of a window, T.
    """

    def __init__(
        self,
        sizes: BiLMConfig,
        corpus: Corpus,
        *,
        n_words: int,
        n_negatives: int,
        batch_size: int,
        unroll_steps: int,
    ):
        self.text = PlainText(corpus, batch_size=batch_size, unroll_steps=unroll_steps)
        self.words = torch.from_numpy(word_ids(corpus, n_words))
        self.characters = torch.from_numpy(
            character_table(corpus.types, sizes.max_characters_per_token)
        )
        n_words = int(self.words.max()) + 1
        self.model = PlainModel(sizes, n_words=n_words, n_negatives=n_negatives)
        self.optimizer = torch.optim.Adagrad(
            self.model.parameters(), lr=LEARN_RATE, initial_accumulator_value=1.0
        )
        hidden = torch.zeros(batch_size, sizes.projection_dim)
        cell = torch.zeros(batch_size, sizes.lstm_dim)
        self.state = [[(hidden, cell)] * sizes.n_layers for _ in range(2)]
        self.n_steps = 0

    def step(self) -> float:
        """RETURNS (float): The loss of one update."""
        inputs, targets = self.text.window(self.n_steps)
        characters = self.characters[torch.from_numpy(inputs).long()].long()
        loss, self.state = self.model(
            characters, self.words[torch.from_numpy(targets).long()], self.state
        )
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), GRAD_CLIP)
        self.optimizer.step()
        self.n_steps += 1
        return loss.item()
