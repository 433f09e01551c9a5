"""ELMo's forward pass in AllenNLP's way: the baseline of `inference.py`.

Weights and arithmetic are the same, but the order of operations is AllenNLP's. The CNN reads 50
characters of every token in the batch, including padding. The LSTMs are a Python loop over time,
with a separate input product and a copy of the state in every step.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from spacy_elmo.bilm.lstm import FORGET_BIAS, ProjectedLSTM
from spacy_elmo.bilm.model import BiLM
from spacy_elmo.model.indexers import character_ids
from spacy_elmo.model.vocabulary import SENTENCE_END, SENTENCE_START


class PlainForward:
    """Forward pass of a model.

    bilm (BiLM): The model.
    """

    def __init__(self, bilm: BiLM):
        self.bilm = bilm
        self.biases = [[self._bias(lstm) for lstm in stack] for stack in bilm.stacks]

    @torch.no_grad()
    def __call__(self, sentences: Sequence[Sequence[str]]) -> list[Tensor]:
        """Compute the layers of sentences, from zero state.

        sentences (Sequence[Sequence[str]]): The tokens, the longest sentence first.
        RETURNS (List[Tensor]): The layers of each sentence. *Shape:* `(L + 1, n_tokens, 2P)`
        """
        marked = [[SENTENCE_START, *sentence, SENTENCE_END] for sentence in sentences]
        lengths = [len(sentence) for sentence in marked]
        vectors = self.encode(marked)
        layers = [torch.cat([vectors, vectors], dim=2)]
        inputs = [vectors, vectors]
        for number in range(self.bilm.config.n_layers):
            outputs = [self.run(d, number, inputs[d], lengths) for d in range(2)]
            if number and self.bilm.config.use_skip_connections:
                outputs = [output + x for output, x in zip(outputs, inputs)]
            layers.append(torch.cat(outputs, dim=2))
            inputs = outputs
        stacked = torch.stack(layers)
        return [stacked[:, row, 1 : length - 1] for row, length in enumerate(lengths)]

    def encode(self, marked: Sequence[Sequence[str]]) -> Tensor:
        """Compute the token vectors of sentences, with padding.

        RETURNS (Tensor): *Shape:* `(n_sentences, longest, P)`
        """
        encoder, longest = self.bilm.encoder, max(map(len, marked))
        width = self.bilm.config.max_characters_per_token
        ids = torch.zeros(len(marked), longest, width, dtype=torch.int64)
        for row, sentence in enumerate(marked):
            spelled = character_ids(sentence, max_characters=width)
            ids[row, : len(sentence)] = torch.from_numpy(spelled)
        characters = encoder.embedding(ids.view(-1, width)).transpose(1, 2)
        pooled = [encoder.activation(c(characters).amax(dim=2)) for c in encoder.convolutions]
        vectors = torch.cat(pooled, dim=1)
        for highway in encoder.highways:
            gate = torch.sigmoid(highway.gate(vectors))
            vectors = gate * F.relu(highway.nonlinear(vectors)) + (1 - gate) * vectors
        if encoder.projection is not None:
            vectors = encoder.projection(vectors)
        return vectors.view(len(marked), longest, -1)

    def run(self, direction: int, number: int, inputs: Tensor, lengths: list[int]) -> Tensor:
        """Run an LSTM layer in one direction.

        RETURNS (Tensor): *Shape:* `(n_sentences, longest, P)`
        """
        lstm: ProjectedLSTM = self.bilm.stacks[direction][number]
        n_rows, n_steps = inputs.shape[:2]
        outputs = torch.zeros_like(inputs)
        all_cells = inputs.new_zeros(n_rows, len(lstm.bias) // 4)
        all_hidden = inputs.new_zeros(n_rows, inputs.shape[2])
        for step in range(n_steps) if direction == 0 else reversed(range(n_steps)):
            running = sum(length > step for length in lengths)
            cell, hidden = all_cells[:running].clone(), all_hidden[:running].clone()
            of_input = F.linear(inputs[:running, step], lstm.input_weight)
            of_state = F.linear(hidden, lstm.state_weight, self.biases[direction][number])
            cell, hidden = self.step(lstm, of_input + of_state, cell)
            all_cells, all_hidden = all_cells.clone(), all_hidden.clone()
            all_cells[:running], all_hidden[:running] = cell, hidden
            outputs[:running, step] = hidden
        return outputs

    def step(self, lstm: ProjectedLSTM, gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the new cell and hidden state."""
        i, j, f, o = gates.chunk(4, dim=1)
        cell = torch.sigmoid(i) * torch.tanh(j) + torch.sigmoid(f) * cell
        if lstm.cell_clip is not None:
            cell = torch.clamp(cell, -lstm.cell_clip, lstm.cell_clip)
        hidden = torch.sigmoid(o) * torch.tanh(cell)
        if lstm.projection is not None:
            hidden = F.linear(hidden, lstm.projection)
            if lstm.proj_clip is not None:
                hidden = torch.clamp(hidden, -lstm.proj_clip, lstm.proj_clip)
        return cell, hidden

    @staticmethod
    def _bias(lstm: ProjectedLSTM) -> Tensor:
        bias = lstm.bias.detach().clone()
        bias[len(bias) // 2 : 3 * len(bias) // 4] += FORGET_BIAS
        return bias
