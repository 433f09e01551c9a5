"""The biLM as a Thinc layer over Docs, and the shim that holds its language model.

The weights are read at the first use. A frozen model on a CPU computes in numpy and a kernel
(`FrozenBiLM`), so that PyTorch is imported only to train or to use a GPU. Changes of weights are
counted, so that layers stored on Docs never outlive the weights that computed them.
"""

import contextlib
import copy
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from spacy.tokens import Doc, Token
from thinc.api import Model, Optimizer, Shim, chain, torch2xp, xp2torch
from thinc.types import Floats2d, Floats3d

from ..embedding.embed import embed_words
from ..embedding.features import Piece
from ..embedding.segmenters import Segment
from ..embedding.settings import ElmoSettings, Weights
from ..files import user_path
from ..frozen.config import BiLMConfig
from ..frozen.model import FrozenBiLM
from ..frozen.threads import limit_threads_after_fork
from ..weights.state_dict_file import import_torch
from .fitting import AnyBiLM, check_bilm, differences, fitting, frozen, precision_of
from .kept import kept_layers

if TYPE_CHECKING:
    from torch import Tensor

Layers = list[Floats3d]
BiLMModel: TypeAlias = Model[list[Doc], Layers]

ShimType = TypeVar("ShimType", bound=Shim)

_RUN = uuid.uuid4().hex  # shim ids are counted from 0 in every process


def copy_shim(shim: ShimType) -> ShimType:
    """Copy a shim with its weights, and give the copy an id of its own.

    Optimizers know weights by the id, so that two shims must not share one.
    """
    copied = copy.deepcopy(shim)
    copied.id = Shim(None).id
    return copied


class BiLMShim(Shim):
    """Holder of the language model, which is read from its weights at the first use.

    On a CPU a frozen model is a `FrozenBiLM`. A model that is fine-tuned or on a GPU is a PyTorch
    module.

    config (BiLMConfig): The sizes.
    """

    def __init__(self, config: BiLMConfig):
        super().__init__(model=None)
        self._model: Any = None
        self.config = config
        self.in_training = False
        self.sizes_may_follow = True  # whether default sizes give way to those of the weights
        self._n_changes = 0
        self.waiting: WeakKeyDictionary[Doc, list[Piece]] = WeakKeyDictionary()
        self._settings = ElmoSettings()

    @property
    def settings(self) -> ElmoSettings:
        """Settings of the language model."""
        return self._settings

    @settings.setter
    def settings(self, settings: ElmoSettings) -> None:
        for name in ("weights", "align"):
            if self.is_loaded and getattr(settings, name) != getattr(self._settings, name):
                raise ValueError(
                    f"{name} cannot be changed after the weights were read. Give it to "
                    f"nlp.add_pipe; for other weights use the pipe's set_bilm(read_weights(PATH))."
                )
        self._settings = settings
        if self._model is not None:
            self._model = fitting(self._model, settings)

    @property
    def identity(self) -> str:
        """Identity of the weights.

        If the weights are frozen, it is their checksum, the same in all processes. Otherwise it
        names this object and the number of its changes.
        """
        if self.settings.frozen:
            return self.checksum()
        return f"{_RUN}.{self.id}.{self._n_changes}"

    def checksum(self) -> str:
        """Return the checksum of the language model."""
        bilm = self.bilm
        if isinstance(bilm, FrozenBiLM):
            return bilm.checksum()
        # A frozen module on a GPU: copy its weights only once.
        if self._checksum is None or self._checksum[0] is not bilm:
            self._checksum = bilm, bilm.freeze().checksum()
        return self._checksum[1]

    _checksum: Optional[tuple[Any, str]] = None

    @property
    def is_loaded(self) -> bool:
        """True if the weights have been read or set."""
        return self._model is not None

    @property
    def bilm(self) -> AnyBiLM:
        """The language model, read at the first access.

        RAISES (ValueError): There are no weights, they cannot be read, or their sizes differ from
            the config's.
        """
        if self._model is None:
            self.read(self.settings.weights)
        return self._model

    def read(self, weights: Weights) -> None:
        """Read the language model from weights.

        weights (Union[str, Path, Callable[[], FrozenBiLM]]): Name, path or reader.
        RAISES (ValueError): As `bilm`.
        """
        from ..weights import HOW_TO_GIVE_WEIGHTS, read_weights

        if weights is None:
            raise ValueError(f"the language model has no weights. {HOW_TO_GIVE_WEIGHTS}")
        bilm = weights() if callable(weights) else read_weights(weights)
        check_bilm(bilm)
        # Default sizes may follow the weights. Sizes that the user set must agree with them.
        follow = self.sizes_may_follow and self.config == BiLMConfig()
        n_layers = self.config.n_layers
        lower = replace(bilm.config, n_layers=n_layers)
        if n_layers < bilm.config.n_layers and self.config == lower:
            bilm = frozen(bilm).first_layers(n_layers)
        if self.config != bilm.config and not follow:
            raise ValueError(
                f"the weights {weights!r} do not have the sizes in the config: "
                f"{differences(bilm.config, self.config)}. Use "
                f"config=spacy_elmo.pretrained(PATH), which sets both."
            )
        if self.settings.align is not None:
            from ..weights.alignment import read_alignment

            matrix = read_alignment(user_path(self.settings.align), bilm.config.width)
            bilm = frozen(bilm).replace(alignment=matrix)
        self.set(bilm)

    def set(self, bilm: AnyBiLM) -> None:
        """Replace the language model.

        bilm (Union[FrozenBiLM, BiLM]): The model. A frozen shim copies a module's weights.
        """
        check_bilm(bilm)
        self.config = bilm.config
        self._model = fitting(bilm, self.settings)
        self._n_changes += 1

    def keep(self, docs: Sequence[Doc], layers: Sequence[Optional[Floats3d]]) -> None:
        """Keep layers that were computed in predictions, because the same texts will come again.

        docs (Sequence[Doc]): The Docs.
        layers (Sequence[Optional[Floats3d]]): Their layers, if these weights made them.
        """
        features = self.settings.features
        found = [(self.waiting.pop(doc, []), values) for doc, values in zip(docs, layers)]
        rows = {
            piece.key: values[:, piece.place]
            for pieces, values in found
            for piece in pieces
            if values is not None
        }
        if features is not None and rows:
            features.add(list(rows), list(rows.values()))

    def features_model(self) -> str:
        """Return what layers depend on beside the text, as one string."""
        return f"{self.checksum()} {precision_of(self.bilm)} {self.settings.initial_state}"

    def copy(self) -> "BiLMShim":
        """Copy the shim with its weights; the copy has an id of its own."""
        return copy_shim(self)

    def finish_update(self, optimizer: Optimizer) -> None:
        """Update the weights with the gradients that they have collected.

        RAISES (ValueError): A gradient is not finite.
        """
        if self._model is None or self.settings.frozen:
            return
        torch = import_torch("Fine-tuning the language model")

        from ..bilm.finite import is_finite

        factor = self.settings.learn_rate_factor
        with torch.no_grad():
            parameters = self._model.named_parameters()
            trained = {name: weight for name, weight in parameters if weight.grad is not None}
            for name, weight in trained.items():  # before any weight is changed
                if not is_finite(weight.grad):
                    raise ValueError(
                        f"the gradient of the language model's weight '{name}' is not finite. "
                        f"Lower the optimizer's learn_rate or the pipe's learn_rate_factor."
                    )
            for name, weight in trained.items():
                arrays = torch2xp(weight), torch2xp(weight.grad)
                value, _ = optimizer((self.id, name), *arrays, lr_scale=factor)
                weight.copy_(xp2torch(value, device=weight.device))
                weight.grad = None
        self._n_changes += 1

    @contextlib.contextmanager
    def use_params(self, params: dict) -> Iterator[None]:
        """Use an optimizer's averaged weights inside the context."""
        is_frozen = self._model is None or isinstance(self._model, FrozenBiLM)
        if is_frozen or not any(key[0] == self.id for key in params):
            yield
            return
        parameters = self._model.named_parameters()
        swapped = {name: weight for name, weight in parameters if (self.id, name) in params}
        backup = {name: weight.detach().clone() for name, weight in swapped.items()}
        import torch

        def put(values: "dict[str, Tensor]") -> None:
            with torch.no_grad():
                for name, weight in swapped.items():
                    weight.copy_(values[name])
            self._n_changes += 1

        put({name: xp2torch(params[self.id, name]) for name in swapped})
        try:
            yield
        finally:
            put(backup)

    def to_device(self, device_type: str, device_id: int) -> None:
        """Move the language model, if it was read."""
        if self._model is not None:
            device = "cpu" if device_type == "cpu" else f"cuda:{device_id}"
            self._model = fitting(self._model, self.settings, device)

    def to_bytes(self) -> bytes:
        """Return the content of a `.safetensors` file, empty if there are no weights to read."""
        from ..weights import is_available
        from ..weights.safetensors_file import to_bytes

        if not self.is_loaded and not is_available(self.settings.weights):
            return b""
        return to_bytes(frozen(self.bilm))

    def from_bytes(self, data: bytes) -> "BiLMShim":
        """Load what `to_bytes` returned."""
        from ..weights.safetensors_file import from_bytes

        if data:
            self.set(from_bytes(data))
        return self

    def from_file(self, file: Path) -> None:
        """Read a language model from a file, in which its weights stay. An empty file has none.

        file (Path): A file with the content of `to_bytes`.
        """
        from ..weights.safetensors_file import read

        if file.stat().st_size or not file.is_file():  # `read` refuses what is not a file
            self.set(read(file))

    def __getstate__(self) -> dict[str, Any]:
        model = self.to_bytes() if self.is_loaded else b""
        own = {"_model": model, "_settings": self.settings, "in_training": False, "waiting": None}
        return {**self.__dict__, **own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        data = state.pop("_model")
        self.__dict__.update(state, _model=None, waiting=WeakKeyDictionary())
        self.from_bytes(data)


def BiLMLayer(config: BiLMConfig) -> BiLMModel:
    """Make the layer that computes the language model's layers, `(L + 1, n_tokens, 2P)` a Doc."""
    dims, shims = {"nO": config.width}, [BiLMShim(config)]
    return Model("elmo_bilm", forward, init=init, dims=dims, shims=shims)


def join_tok2vec(
    bilm: BiLMModel, mix: Model[Layers, list[Floats2d]]
) -> Model[list[Doc], list[Floats2d]]:
    """Chain a language model and its mix."""
    tok2vec = chain(bilm, mix)
    tok2vec.set_dim("nO", bilm.get_dim("nO"))
    return tok2vec


def get_shim(model: BiLMModel) -> BiLMShim:
    """Return the shim of a BiLMLayer, the holder of the language model."""
    shim = model.shims[0]
    assert isinstance(shim, BiLMShim)
    return shim


def follow_weights(model: BiLMModel) -> None:
    """Set the width of a BiLMLayer to its weights' width, which may not be the default."""
    model.set_dim("nO", get_shim(model).config.width, force=True)


def forward(model: BiLMModel, docs: Sequence[Doc], is_train: bool) -> tuple[Layers, Callable]:
    """Compute the layers of Docs; frozen features come from the cache."""
    limit_threads_after_fork()
    init(model)
    shim = get_shim(model)
    bilm = shim.bilm
    shim.in_training = shim.in_training or is_train
    settings = shim.settings
    segments = [settings.segmenter(doc) for doc in docs]

    def compute(texts: Iterable[Iterable[Token]], cut: list[list[Segment]]) -> list[Any]:
        words = [[token.text for token in text] for text in texts]
        if isinstance(bilm, FrozenBiLM):
            return embed_words(bilm, words, cut, settings)
        import torch

        with torch.set_grad_enabled(is_train and not settings.frozen):
            return embed_words(bilm, words, cut, settings)

    def compute_pieces(found: "list[tuple[Doc, Piece]]") -> Layers:
        pieces = [piece for _, piece in found]
        texts = (doc[piece.tokens] for doc, piece in found)
        layers = compute(texts, [piece.segments for piece in pieces])
        return [values[:, one.kept] for values, one in zip(layers, pieces)]

    cache = settings.features
    if settings.frozen and shim.in_training and cache is not None:
        kept = kept_layers(shim, cache, docs, segments, compute_pieces, is_train=is_train)
        return kept, lambda d_layers: []
    layers = compute(docs, segments)
    if all(isinstance(values, np.ndarray) for values in layers):
        return layers, lambda d_layers: []

    def backprop(d_layers: Layers) -> list[Doc]:
        import torch

        trained = [i for i, values in enumerate(layers) if values.requires_grad]
        if trained:
            torch.autograd.backward(
                [layers[i] for i in trained],
                [xp2torch(d_layers[i], device=bilm.device) for i in trained],
            )
        return []

    return [values.detach().cpu().numpy() for values in layers], backprop


def init(model: BiLMModel, X: object = None, Y: object = None) -> None:
    """Read the weights, and set the layer's width to theirs."""
    _ = get_shim(model).bilm
    follow_weights(model)
