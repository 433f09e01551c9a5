"""Shim that contains the language model of a BiLMLayer.

It reads the weights at the first use. A frozen model on a CPU is a `FrozenBiLM`, which needs only
NumPy and a kernel. So PyTorch is used only for fine-tuning or a GPU, and does not have to be
installed otherwise. (If it is installed, Thinc imports it.) The shim counts changes of the weights:
layers that a Doc stores are valid only for the weights that computed them.

An update can be pending: the pipe waits for the gradients of further listeners before it changes
the weights (`pipeline/training.py`). Invariant: code that saves, copies, swaps, moves or replaces
the weights, or reads them through `bilm`, first finishes the pending update.
"""

import contextlib
import inspect
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional
from weakref import WeakKeyDictionary

from spacy.tokens import Doc
from thinc.api import Optimizer, Shim, torch2xp, xp2torch
from thinc.types import Floats3d

from ..embedding.features import Piece
from ..embedding.settings import ElmoSettings, WeightsSetting
from ..files import user_path
from ..files.optional import import_optional
from ..frozen.model import FrozenBiLM
from ..model.config import BiLMConfig
from .fitting import (
    AnyBiLM,
    as_frozen,
    check_bilm,
    config_differences,
    fit_to_settings,
    precision_of,
)
from .shims import copy_shim, swapped_weights

_RUN = uuid.uuid4().hex  # Every process counts shim ids from 0, so ids alone are not unique.


class BiLMShim(Shim):
    """Shim that contains the language model, and reads its weights at the first use.

    On a CPU, a frozen model is a `FrozenBiLM`. A model that is fine-tuned or on a GPU is a PyTorch
    module.
    """

    def __init__(self, config: BiLMConfig):
        super().__init__(model=None)
        self._model: Any = None
        self.config = config
        # Whether the model was used in training. Then predictions use the cache of layers, too,
        # because the Docs that are scored come again after each epoch.
        self.in_training = False
        # Whether the sizes of the weights may replace the default sizes.
        self.sizes_may_follow = True
        self._n_changes = 0
        # Number of changes of settings that the layers depend on.
        self._n_settings = 0
        # Number of changes of the weights at the time, and their checksum.
        self._checksum: Optional[tuple[int, str]] = None
        # Function of the pipe, which `finish_pending` calls; None if no update is pending.
        self.before_weights_are_used: Optional[Callable[[], None]] = None
        # Pieces of predicted Docs that are not in the cache of features: `keep` may add them.
        self.waiting: WeakKeyDictionary[Doc, list[Piece]] = WeakKeyDictionary()
        self._settings = ElmoSettings()

    @property
    def settings(self) -> ElmoSettings:
        """Settings of the language model in the pipe's config."""
        return self._settings

    @settings.setter
    def settings(self, settings: ElmoSettings) -> None:
        self.finish_pending()
        for name in ("weights", "align"):
            if self.is_loaded and getattr(settings, name) != getattr(self._settings, name):
                raise ValueError(
                    f"{name} cannot be changed after the weights were read. Pass it to "
                    f"nlp.add_pipe, or replace the weights with "
                    f"the pipe's set_bilm(read_weights(PATH))."
                )
        # While they are not frozen, weights can change without a call of this class.
        self._n_changes += settings.frozen != self._settings.frozen
        if self.is_loaded:
            self._n_settings += any(
                getattr(settings, name) != getattr(self._settings, name)
                for name in ("precision", "initial_state", "segmenter")
            )
        self._settings = settings
        if self._model is not None:
            self._model = fit_to_settings(self._model, settings)

    @property
    def identity(self) -> str:
        """Identity of the weights, to check whether stored layers are valid.

        For frozen weights, it is the checksum, which is the same in all processes. Otherwise it
        consists of ids of the process and the shim, and the number of changes of the weights. If
        settings that the layers depend on were changed later, it ends with the number of changes.
        """
        changed = f".{self._n_settings}" if self._n_settings else ""
        if self.settings.frozen:
            return self.checksum() + changed
        return f"{_RUN}.{self.id}.{self._n_changes}{changed}"

    def checksum(self) -> str:
        """Return the SHA-256 of the language model's sizes, weights and vocabularies."""
        bilm = self.bilm
        if isinstance(bilm, FrozenBiLM):
            return bilm.checksum()
        # The model is a PyTorch module. Copy its weights to the CPU only once for each change. The
        # module itself is not a key: a pickled shim would contain it a second time.
        if self._checksum is None or self._checksum[0] != self._n_changes:
            self._checksum = self._n_changes, bilm.checksum()
        return self._checksum[1]

    @property
    def is_loaded(self) -> bool:
        """True if the shim has a language model: its weights have been read or set."""
        return self._model is not None

    @property
    def bilm(self) -> AnyBiLM:
        """Language model, whose weights the first access reads.

        RAISES (ValueError): There are no weights, they cannot be read, or their sizes differ from
            the sizes in the config.
        """
        self.finish_pending()
        return self.load()

    def load(self) -> AnyBiLM:
        """Read the weights if they are not read yet, and return the language model.

        Unlike `bilm`, this does not finish a pending update: another listener of the same update
        may still need layers of the weights before it.
        """
        if self._model is None:
            self.read(self.settings.weights)
        return self._model

    def finish_pending(self) -> None:
        """Finish the pending update, if there is one."""
        if self.before_weights_are_used is not None:
            self.before_weights_are_used()

    @property
    def has_gradient(self) -> bool:
        """True if weights have gradients that no optimizer step has applied."""
        if self._model is None or isinstance(self._model, FrozenBiLM):
            return False
        return any(weight.grad is not None for weight in self._model.parameters())

    def read(self, weights: WeightsSetting) -> None:
        """Read the language model.

        weights (Union[str, Path, Callable[[], FrozenBiLM]]): Name or path, or a function that
            returns the language model.
        RAISES (ValueError): There are no weights, they cannot be read, or their sizes differ from
            the sizes in the config.
        """
        from ..weights import HOW_TO_GIVE_WEIGHTS, read_weights

        if weights is None:
            raise ValueError(f"the language model has no weights. {HOW_TO_GIVE_WEIGHTS}")
        bilm = (
            weights()
            if callable(weights)
            else read_weights(str(weights) if isinstance(weights, int) else weights)
        )
        check_bilm(bilm)
        # The weights' sizes replace default sizes, but must agree with sizes that the user has set.
        follow = self.sizes_may_follow and self.config == BiLMConfig()
        n_layers = self.config.n_layers
        lower = replace(bilm.config, n_layers=n_layers)
        # Lower layers do not depend on higher ones, so a config may ask for fewer layers.
        if n_layers < bilm.config.n_layers and self.config == lower:
            bilm = as_frozen(bilm).first_layers(n_layers)
        if self.config != bilm.config and not follow:
            raise ValueError(
                f"the weights {weights!r} do not have the sizes in the config: "
                f"{config_differences(bilm.config, self.config)}. Delete [components.elmo.model] "
                f"from the config, or use config=spacy_elmo.pretrained(PATH)."
            )
        if self.settings.align is not None:
            from ..weights.readers import read_alignment

            matrix = read_alignment(user_path(self.settings.align), bilm.config.width)
            bilm = as_frozen(bilm).replace(alignment=matrix)
        self.set(bilm)

    def set(self, bilm: AnyBiLM) -> None:
        """Replace the language model.

        For a frozen pipe on a CPU, the weights of a PyTorch module (BiLM) are copied.
        """
        check_bilm(bilm)
        self.finish_pending()
        self.config = bilm.config
        self._model = fit_to_settings(bilm, self.settings)
        self._n_changes += 1

    def keep(self, docs: Sequence[Doc], layers: Sequence[Optional[Floats3d]]) -> None:
        """Save the layers of predicted Docs in the cache of features.

        Call this for texts that will be predicted again, such as the development data.

        layers (Sequence[Optional[Floats3d]]): The layers of each Doc. With None, because other
            weights have computed them, nothing is added for the Doc.
        """
        features = self.settings.features
        rows = {
            piece.key: values[:, piece.place]
            for doc, values in zip(docs, layers)
            for piece in self.waiting.pop(doc, [])
            if values is not None
        }
        if features is not None and rows:
            features.add(list(rows), list(rows.values()))

    def features_model(self) -> str:
        """Return a string that identifies weights, precision and initial LSTM state.

        The layers depend only on these and on the text. So the string is part of the keys in the
        cache of features.
        """
        return f"{self.checksum()} {precision_of(self.bilm)} {self.settings.initial_state}"

    def copy(self) -> "BiLMShim":
        """Copy the shim with its weights, under a new id."""
        return copy_shim(self)

    def finish_update(self, optimizer: Optimizer) -> None:
        """Update the weights with their gradients.

        RAISES (ValueError): A gradient is not finite, or the optimizer cannot scale its learning
            rate. Then no weight changes, and all gradients are deleted, so that the next update
            starts without them.
        """
        self.finish_pending()
        if self._model is None or self.settings.frozen:
            return
        torch = import_optional("torch", "Fine-tuning the language model")

        from ..bilm.model import is_finite

        factor = self.settings.learn_rate_factor
        # The function that `nlp.rehearse` passes as the optimizer does not take this argument.
        scale = {} if factor == 1.0 else {"lr_scale": factor}
        if scale and "lr_scale" not in inspect.signature(optimizer).parameters:
            self._model.zero_grad()
            raise ValueError(
                f"`nlp.rehearse` cannot scale the learning rate of the language model by "
                f"learn_rate_factor = {factor}. Set it to 1, or exclude the component."
            )
        with torch.no_grad():
            parameters = self._model.named_parameters()
            trained = {name: weight for name, weight in parameters if weight.grad is not None}
            for name, weight in trained.items():  # Check all gradients before a weight is changed.
                if not is_finite(weight.grad):
                    self._model.zero_grad()
                    raise ValueError(
                        f"the gradient of the language model's weight '{name}' is not finite. "
                        f"Lower the optimizer's learn_rate or the pipe's learn_rate_factor."
                    )
            for name, weight in trained.items():
                arrays = torch2xp(weight), torch2xp(weight.grad)
                value, _ = optimizer((self.id, name), *arrays, **scale)
                weight.copy_(xp2torch(value, device=weight.device))
                weight.grad = None
        self._n_changes += bool(trained)

    @contextlib.contextmanager
    def use_params(self, params: dict) -> Iterator[None]:
        """Context manager: use the averaged weights of an optimizer.

        params (dict): A key is the id of the shim and the name of a weight.
        """
        self.finish_pending()
        module = None if isinstance(self._model, FrozenBiLM) else self._model
        with swapped_weights(self, module, params) as is_swapped:
            self._n_changes += is_swapped
            try:
                yield
            finally:
                self._n_changes += is_swapped

    def to_device(self, device_type: str, device_id: int) -> None:
        """Move the language model to a device. Do nothing if its weights have not been read yet.

        device_type (str): "cpu" or "mps". Any other name, such as "gpu", means a CUDA GPU.
        """
        if self._model is not None:
            self.finish_pending()
            device = device_type if device_type in ("cpu", "mps") else f"cuda:{device_id}"
            self._model = fit_to_settings(self._model, self.settings, device)

    def to_bytes(self) -> bytes:
        """Return the content of a `.safetensors` file; empty bytes if there are no weights.

        A tensor is stored in float16 if this loses nothing, and otherwise in float32.
        """
        from ..weights import is_available
        from ..weights.safetensors_file import to_bytes

        if not self.is_loaded and not is_available(self.settings.weights):
            return b""
        return to_bytes(as_frozen(self.bilm))

    def from_bytes(self, data: bytes) -> "BiLMShim":
        """Read the language model from the result of `to_bytes`, unless it is empty."""
        from ..weights.safetensors_file import from_bytes

        if data:
            self.set(from_bytes(data))
        return self

    def from_file(self, file: Path) -> None:
        """Read the bytes of `to_bytes` from a file, unless it is empty.

        The file stays open, so that `FrozenBiLM` can drop its arrays and read them again.
        """
        from ..weights.safetensors_file import read

        if file.stat().st_size or not file.is_file():  # If it is no file, `read` raises an error.
            self.set(read(file))

    def __getstate__(self) -> dict[str, Any]:
        model = self.to_bytes() if self.is_loaded else b""
        own = {"_model": model, "_settings": self.settings, "in_training": False}
        return {**self.__dict__, **own, "before_weights_are_used": None, "waiting": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        data = state.pop("_model")
        self.__dict__.update(state, _model=None, waiting=WeakKeyDictionary())
        self.from_bytes(data)
