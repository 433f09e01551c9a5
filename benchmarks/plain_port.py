"""Simple PyTorch port of bilm-tf's training step: the baseline of `pretraining.py`.

It uses only the sizes (`BiLMConfig`) and the text (`Corpus`) of the package. The CNN reads 50
characters of every token in the batch, each direction has its own input batch, the LSTMs are a
Python loop over time, and all numbers are float32 with dense gradients.
"""

import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from spacy_elmo.model.config import BiLMConfig
from spacy_elmo.text.corpus import Corpus

START, END = "<S>", "</S>"
BOS, EOS, BOW, EOW, PAD = 257, 258, 259, 260, 261  # bilm-tf's numbers plus 1
N_CHARACTERS = 262
UNKNOWN_ID, N_SPECIAL = 2, 3  # <S> is 0, </S> is 1
DROPOUT, LEARN_RATE, GRAD_CLIP = 0.1, 0.2, 10.0


class PlainText:
    """Windows of a text in both directions.

    The text is cut into B parts of equal length. Row `r` of a batch reads part `r`.

    corpus (Corpus): The text.
    batch_size (int): Number of streams, B.
    unroll_steps (int): Number of steps in a window, T.
    """

    def __init__(self, corpus: Corpus, *, batch_size: int, unroll_steps: int):
        inputs: list[list[np.ndarray]] = [[], []]
        targets: list[list[np.ndarray]] = [[], []]
        start, end = np.array([0], dtype="int32"), np.array([1], dtype="int32")
        for sentence in np.split(corpus.tokens, corpus.starts[1:]):
            words = sentence[1:]  # Without <S>.
            inputs[0].append(np.concatenate([start, words]))
            targets[0].append(np.concatenate([words, end]))
            inputs[1].append(np.concatenate([end, words[::-1]]))
            targets[1].append(np.concatenate([words[::-1], start]))
        self.inputs = np.stack([np.concatenate(parts) for parts in inputs])
        self.targets = np.stack([np.concatenate(parts) for parts in targets])
        self.batch_size, self.unroll_steps = batch_size, unroll_steps

    def window(self, step: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the inputs and targets of a training step.

        step (int): Number of the step, from 0.
        RETURNS (Tuple[numpy.ndarray, numpy.ndarray]): Ids of the tokens to read, and of the tokens
            to predict. *Shape:* `(2, B, T)` each
        """
        n_items = self.inputs.shape[1]
        rows = np.arange(self.batch_size) * (n_items // self.batch_size)
        steps = np.arange(self.unroll_steps) + step * self.unroll_steps
        positions = (rows[:, None] + steps[None, :]) % n_items
        return self.inputs[:, positions], self.targets[:, positions]


def word_ids(corpus: Corpus, max_words: int) -> np.ndarray:
    """Return the id in the softmax of each distinct token. Rare tokens get the id of `<UNK>`."""
    order = [i for i in np.argsort(-corpus.counts(), kind="stable") if i > 1]
    ids = np.full(len(corpus.types), UNKNOWN_ID, dtype="int64")
    chosen = order[: max_words - N_SPECIAL]
    ids[chosen] = np.arange(N_SPECIAL, N_SPECIAL + len(chosen))
    ids[:2] = 0, 1
    return ids


def character_table(types: list[str], max_characters: int) -> np.ndarray:
    """Return the padded character ids of all distinct tokens, as in bilm-tf.

    RETURNS (numpy.ndarray): *Shape:* `(n_types, max_characters)`
    """
    table = np.full((len(types), max_characters), PAD, dtype="int16")
    for row, token in zip(table, types):
        if token in (START, END):
            spelled = [BOS if token == START else EOS]
        else:
            spelled = [byte + 1 for byte in token.encode("utf8", "ignore")[: max_characters - 2]]
        row[: len(spelled) + 2] = [BOW, *spelled, EOW]
    return table


def _max_over_time(features: Tensor) -> Tensor:
    """Return the maximum over time. `max_pool1d` is faster than `max` and `amax`."""
    return F.max_pool1d(features, features.shape[2]).squeeze(2)


class PlainEncoder(nn.Module):
    """Token encoder: character convolutions, highway layers, projection."""

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
        """Compute token vectors.

        characters (Tensor): Character ids. *Shape:* `(B, T, 50)`
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
    """LSTM layer of one direction, as a loop over time."""

    def __init__(self, sizes: BiLMConfig):
        super().__init__()
        self.cell_clip, self.proj_clip = sizes.cell_clip, sizes.proj_clip
        self.gates = nn.Linear(2 * sizes.projection_dim, 4 * sizes.lstm_dim)
        self.projection = nn.Linear(sizes.lstm_dim, sizes.projection_dim, bias=False)

    def forward(
        self, inputs: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Run the layer over a window.

        inputs (Tensor): *Shape:* `(B, T, P)`
        hidden (Tensor): *Shape:* `(B, P)`
        cell (Tensor): *Shape:* `(B, D)`
        RETURNS (Tuple[Tensor, Tensor, Tensor]): The outputs, and the new hidden and cell state.
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
    """Sampled softmax, as in `tf.nn.sampled_softmax_loss`.

    The batch shares log-uniform candidates. The logarithm of their expected count is subtracted
    from the logits, and accidental hits are removed. One difference: TensorFlow rejects repeated
    candidates. Here they stay, which needs the same time but no loop.
    """

    def __init__(self, *, n_words: int, width: int, n_negatives: int):
        super().__init__()
        self.n_words, self.n_negatives = n_words, n_negatives
        self.weight = nn.Embedding(n_words, width)
        self.bias = nn.Embedding(n_words, 1)
        nn.init.normal_(self.weight.weight, std=1.0 / math.sqrt(width))
        nn.init.zeros_(self.bias.weight)

    def draw(self) -> Tensor:
        """Draw the ids of negative words from a log-uniform distribution."""
        uniform = torch.rand(self.n_negatives, dtype=torch.float64)
        ranks = torch.exp(uniform * math.log(self.n_words + 1)) - 1.0
        return ranks.long().clamp(0, self.n_words - 1)

    def log_expected(self, words: Tensor) -> Tensor:
        """Return the logarithm of the expected count of each word in a draw."""
        share = torch.log1p(1.0 / (words + 1.0)) / math.log(self.n_words + 1)
        return torch.log(share * self.n_negatives)

    def forward(self, contexts: Tensor, targets: Tensor) -> Tensor:
        """Compute the mean loss.

        contexts (Tensor): *Shape:* `(n, P)`
        targets (Tensor): Word ids. *Shape:* `(n,)`
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
    """Language model: one encoder, a stack of LSTMs per direction, one softmax."""

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
        """Compute the loss of a window.

        characters (Tensor): *Shape:* `(2, B, T, 50)`
        targets (Tensor): *Shape:* `(2, B, T)`
        state (List[List[Tuple[Tensor, Tensor]]]): Hidden and cell state by direction and layer.
        RETURNS (Tuple): The mean loss of both directions, and the new state.
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
    """Trainer of the port.

    sizes (BiLMConfig): Sizes of the model.
    corpus (Corpus): The text.
    n_words (int): Maximum size of the vocabulary, including the special words.
    n_negatives (int): Number of candidates of the softmax.
    batch_size (int): Number of streams, B.
    unroll_steps (int): Number of steps in a window, T.
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
        """Run one update, and return the loss."""
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
