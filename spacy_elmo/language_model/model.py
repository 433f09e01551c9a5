"""Trainable biLM with its softmax and vocabulary."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Optional

import numpy as np
import torch
from torch import Tensor

from ..bilm.graph import RecordedStacks
from ..bilm.lstm import BiLMState
from ..bilm.model import BiLM
from ..bilm.sections import section
from ..bilm.softmax import Softmax, freeze
from ..model.vocabulary import Vocabulary
from ..weights.bundle import ModelBundle
from ..weights.pipeline_folder import PipelineFolder
from .frozen import check_predicts, types_of
from .windows import EncodedWindow, Window


class BiLMEncoder(torch.nn.Module):
    """Module that runs a biLM over windows of text, to get the vectors that predict words."""

    def __init__(self, bilm: BiLM):
        super().__init__()
        self.bilm = bilm
        self.recorded: Optional[RecordedStacks] = None

    def record(
        self, n_rows: int, n_steps: int, product_dtype: Optional[torch.dtype] = None
    ) -> None:
        """Record the LSTM stacks as a CUDA graph, which later calls of `forward` run.

        These calls must have windows of this shape, this `product_dtype` and no dropout. Nothing is
        recorded on a CPU, or for a model without clips: each of its LSTMs is one kernel of cuDNN.

        n_steps (int): Number of steps in a window, the tokens per stream.
        product_dtype (Optional[torch.dtype]): Type of the LSTMs' products; None: the weights' type.
        """
        if self.bilm.device.type == "cuda" and self.bilm.config.has_clips:
            stacks = RecordedStacks(self.bilm.train(), n_rows, n_steps, product_dtype)
            self.recorded = stacks.record()

    def forward(
        self,
        window: EncodedWindow,
        state: BiLMState,
        dropout: float = 0.0,
        product_dtype: Optional[torch.dtype] = None,
    ) -> tuple[Tensor, BiLMState]:
        """Compute the context vectors that predict words, for all items of a window.

        The token encoder reads each different token once.

        state (BiLMState): Initial state, one row per stream.
        dropout (float): Dropout rate of each LSTM's input, in training mode.
        product_dtype (Optional[torch.dtype]): Type of matrix products; None: the weights' type.
        RETURNS (Tuple[Tensor, BiLMState]): The top layer, first the forward items and then the
            backward items, *Shape:* `(n_directions * n_items, projection_dim)`, and the state after
            the window.
        """
        with section("encoder"):
            vectors = self.bilm.vectors_of_ids(window.ids, product_dtype)
            rows = self.bilm.to_device(window.rows)
        with section("lstms"):
            # The number of different tokens varies, but a graph has fixed shapes, so it gets one
            # row per item.
            if self.recorded is not None:
                inputs = vectors.index_select(0, rows.ravel())
                top, *ended = self.recorded(inputs, state.hidden, state.cell)
                return top, BiLMState(*ended)
            sizes, options = (
                window.batch_sizes,
                {"dropout": dropout, "product_dtype": product_dtype},
            )
            outputs, state = self.bilm(vectors, rows, sizes, state, **options)
            return torch.cat([output[-1] for output in outputs]), state


class LanguageModel(torch.nn.Module):
    """Trainable biLM with a softmax that predicts words.

    softmax (Softmax): Output layer of both directions.
    RAISES (ValueError): A direction of the biLM sees the words that it must predict, because
        `joined_directions` is True or `sentence_marks` is False.
    """

    def __init__(self, bilm: BiLM, softmax: Softmax, vocabulary: Vocabulary):
        super().__init__()
        check_predicts(bilm.config)
        self.bilm = bilm
        self.softmax = softmax
        self.vocabulary = vocabulary

    @torch.no_grad()
    def contexts(
        self, window: Window, types: Sequence[str], state: BiLMState
    ) -> tuple[Sequence[Tensor], BiLMState]:
        """Compute the context vectors that predict words, without gradients.

        types (Sequence[str]): The string of each id in the window.
        state (BiLMState): Initial state, one row per stream.
        RETURNS (Tuple[Sequence[Tensor], BiLMState]): The packed top layer of each direction,
            *Shape:* `(n_items, projection_dim)`, and the state after the window.
        """
        inputs = window.inputs[: self.bilm.config.n_directions]
        strings, rows = types_of(inputs, types, self.bilm.indexer.marks)
        vectors = self.bilm.token_vectors(strings)
        outputs, state = self.bilm(vectors, self.bilm.to_device(rows), window.batch_sizes, state)
        return [output[-1] for output in outputs], state

    def negative_log_likelihood(self, contexts: Tensor, targets: np.ndarray) -> float:
        """Compute the sum of the targets' negative log-probabilities, in nats.

        contexts (Tensor): Context vectors. *Shape:* `(n, projection_dim)`
        targets (numpy.ndarray): Word ids. *Shape:* `(n,)`
        """
        wanted = torch.from_numpy(targets).to(self.bilm.device)
        return self.softmax.negative_log_likelihood(contexts, wanted)


def save_model(
    model: LanguageModel, folder: Path, *, lang: str, provenance: dict[str, Any]
) -> None:
    """Write a folder with a spaCy pipeline (the pipe `elmo`), the softmax and the vocabulary.

    If the folder exists, it is replaced when the new content is complete.

    provenance (dict): Origin and training of the model, as JSON can store it.
    """
    prediction = (freeze(model.softmax), model.vocabulary)
    bilm = model.bilm.freeze().replace(provenance=provenance)
    PipelineFolder.write(ModelBundle(bilm, prediction, lang), folder)
