"""Factory and class of the pipe `elmo`.

`Elmo` implements spaCy's interface of a trainable pipe. Its base class `Training` contains the
methods for `nlp.update`. Its base class `Listening` connects listeners, and has the attribute
`_shim`: the shim of the Thinc model contains the language model and the settings (`layers/bilm.py`,
`layers/bilm_shim.py`).
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Optional, Union

import srsly
from spacy import util
from spacy.language import Language
from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_get_examples
from spacy.vocab import Vocab

from ..embedding.embed import by_tokens
from ..embedding.features import FeatureCache
from ..embedding.mix import Mix, mix_layers
from ..embedding.settings import ElmoSettings
from ..embedding.vectors import set_hooks
from ..files import PathSetting, atomic_write
from ..files.errors import named_errors
from ..frozen.model import FrozenBiLM
from ..layers.bilm import BiLMModel, follow_weights
from ..layers.fitting import AnyBiLM, precision_of
from ..layers.scalar_mix import Layers
from ..weights.attribution import names_pipe, write_in_pipeline
from .changes import apply_changes, changed_config, write_changes
from .replacing import ReplacedConfig, replace_listener
from .training import Training

MODEL_FILE = "model.safetensors"
PIPE_BATCHES = 8  # `pipe` keeps the layers of this number of batches in memory.
DEFAULTS = {
    "model": {"@architectures": "spacy-elmo.BiLM.v1"},
    **{setting.name: setting.default for setting in fields(ElmoSettings)},
    "weights": "en_small",
    "segmenter": {"@segmenters": "spacy-elmo.sentences.v2"},
    "features": {"@feature_caches": "spacy-elmo.memory.v1"},
}


@Language.factory("elmo", assigns=["doc._.elmo", "doc.tensor"], default_config=DEFAULTS)
def make_elmo(
    nlp: Language,
    name: str,
    model: BiLMModel,
    weights: Union[PathSetting, Callable[[], Any], None],
    mix: Mix,
    initial_state: str,
    segmenter: Callable[[Doc], list],
    frozen: bool,
    learn_rate_factor: float,
    store_layers: Union[bool, str],
    set_vectors: bool,
    max_batch_tokens: int,
    cache: int,
    precision: str,
    align: Optional[PathSetting],
    features: Optional[FeatureCache],
) -> "Elmo":
    """Make an `elmo` pipe. The settings are described in `ElmoSettings`."""
    pipe = Elmo(nlp.vocab, model, name, ElmoSettings.from_arguments(locals()))
    pipe.home = nlp
    return pipe


class Elmo(Training, TrainablePipe):
    """Pipe that sets contextual vectors and passes the language model's layers to listeners.

    vocab (Vocab): The vocab.
    model (Model[List[Doc], List[Floats3d]]): The language model.
    name (str): Name of the pipe.
    settings (ElmoSettings): The settings. Each setting is also an attribute of the pipe. If you
        change one, `to_disk` and `to_bytes` save the new value.
    """

    def __init__(
        self,
        vocab: Vocab,
        model: BiLMModel,
        name: str = "elmo",
        settings: ElmoSettings = ElmoSettings(),
    ):
        self.vocab = vocab
        self.model = model
        self.name = name
        self.cfg: dict[str, Any] = {}  # Part of spaCy's interface. The settings are in `settings`.
        Training.__init__(self)
        self.settings = self._made_with = settings
        self._has_checked_language = False
        model.attrs["replace_listener"] = replace_listener
        model.attrs["replace_listener_cfg"] = ReplacedConfig(self)

    @property
    def bilm(self) -> AnyBiLM:
        """The language model; a torch.nn.Module if it is fine-tuned or on a GPU.

        RAISES (ValueError): The pipe has no weights, or they cannot be read.
        """
        return self._shim.bilm

    def set_bilm(self, bilm: AnyBiLM) -> None:
        """Replace the language model.

        bilm (Union[FrozenBiLM, BiLM]): The model. A frozen pipe on a CPU copies the weights of
            a PyTorch module (BiLM), so later changes of the module have no effect.
        """
        self._shim.set(bilm)
        follow_weights(self.model)

    def move_to(self, device: str) -> None:
        """Move the language model to a device.

        device (str): PyTorch's name of the device, such as "cpu" or "cuda:1".
        RAISES (ValueError): There is no such device.
        """
        kind, _, number = device.partition(":")
        # PyTorch reports a device that does not exist by one of two types.
        kinds = (RuntimeError, AssertionError)
        with named_errors(f"the device '{device}' cannot be used", kinds):
            self._shim.to_device(kind, int(number or 0))

    @property
    def width(self) -> int:
        """Width of the vectors, 2P."""
        return self._shim.config.width

    @property
    def _stores_layers(self) -> bool:
        store = self.settings.store_layers
        return self.has_listeners() if store == "auto" else bool(store)

    def __repr__(self) -> str:
        """Describe the pipe: its name, its weights, and their precision and kernel or device.

        Weights that are not loaded are not read: only `weights` and `frozen` are shown.
        """
        settings, shim = self.settings, self._shim
        said: dict[str, Any] = {"weights": settings.weights, "frozen": settings.frozen}
        if shim.is_loaded:
            bilm = shim.load()
            name = bilm.provenance.get("name", settings.weights)
            said = {"weights": name, "lang": bilm.provenance.get("lang"), "width": self.width}
            said |= {"frozen": settings.frozen, "precision": precision_of(bilm)}
            if isinstance(bilm, FrozenBiLM):
                said["kernel"] = bilm.kernel.name
            else:
                said["device"] = str(bilm.device)
        listed = ", ".join(f"{key}={value!r}" for key, value in said.items())
        return f"Elmo({self.name!r}, {listed})"

    # Applying

    def predict(self, docs: Iterable[Doc]) -> Layers:
        """Compute the layers of Docs, without changing the Docs.

        docs (Iterable[Doc]): The Docs.
        RETURNS (List[Floats3d]): The token layer and the L LSTM layers of each Doc. *Shape:*
            `(L + 1, n_tokens, 2P)` each
        RAISES (ValueError): The pipe has no weights.
        """
        docs = list(docs)
        self._finish_before_prediction(docs)
        self.connect_lost_listeners()
        self._check_language()
        if self._stores_layers:
            _ = self._shim.identity  # Compute the checksum now, while the weights are in memory.
        return self.model.predict(docs)

    def set_annotations(self, docs: Sequence[Doc], scores: Layers) -> None:
        """Set `doc._.elmo` (if `store_layers`), and `doc.tensor` with hooks (if `set_vectors`).

        If a later component reads spaCy's own tok2vec from `doc.tensor`, this pipe does not set it.

        docs (Sequence[Doc]): The Docs.
        scores (List[Floats3d]): The result of `predict` for them.
        """
        settings = self.settings
        if self._stores_layers:
            self._store(docs, scores)
        if settings.set_vectors and not self._tensor_readers:
            for doc, layers in zip(docs, scores):
                doc.tensor = mix_layers(layers, settings.mix)
                set_hooks(doc)

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Apply the pipe to a stream of Docs, in order.

        stream (Iterable[Doc]): The Docs.
        batch_size (int): Maximum number of Docs in a batch. If the Docs are long, a batch has fewer
            Docs, to limit the memory.
        YIELDS (Doc): The Docs.
        """
        handle_error = self.get_error_handler()
        max_tokens = PIPE_BATCHES * self.settings.max_batch_tokens
        for docs in by_tokens(stream, max_tokens, batch_size):
            try:
                self.set_annotations(docs, self.predict(docs))
            except Exception as error:
                handle_error(self.name, self, docs, error)
            else:
                yield from docs

    # Training

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Optional[Language] = None,
        weights: Union[PathSetting, Callable[[], Any], None] = None,
    ) -> None:
        """Read the weights, if they are not read yet.

        get_examples (Callable[[], Iterable[Example]]): Examples. They are checked, but not used.
        nlp (Optional[Language]): The pipeline.
        weights (Union[str, int, Path, Callable[[], FrozenBiLM], None]): Name, path or reader of
            weights that replace any weights read before. Default: the weights read before, or else
            the weights in the settings.
        RAISES (ValueError): There are no weights, or they cannot be read.
        """
        validate_get_examples(get_examples, "Elmo.initialize")
        if nlp is not None:
            self.home = nlp
        if weights is not None:
            self._shim.read(weights)
        self.model.initialize()
        self._check_language()

    # Serialization

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Serialize the weights, and the settings that changed after the pipe was made.

        exclude (Iterable[str]): "model" to omit the weights, "cfg" to omit the settings.
        RETURNS (bytes): Weights and changed settings.
        """
        writers = {
            "model": self._shim.to_bytes,
            "cfg": lambda: srsly.json_dumps(changed_config(self._made_with, self.settings)),
        }
        return util.to_bytes(writers, exclude)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = ()) -> "Elmo":
        """Load weights and changed settings from bytes.

        bytes_data (bytes): The result of `to_bytes`.
        exclude (Iterable[str]): "model" to keep the current weights, "cfg" to keep the current
            settings.
        RETURNS (Elmo): The pipe itself.
        """

        def read_settings(data: bytes) -> None:
            changes, made, now = srsly.json_loads(data), self._made_with, self.settings
            # The bytes contain the weights and their alignment, so ignore both settings.
            if self._shim.is_loaded:
                changes = {n: v for n, v in changes.items() if n not in ("weights", "align")}
                made = replace(made, weights=now.weights, align=now.align)
            self.settings = apply_changes(made, changes)

        readers = {"cfg": read_settings, "model": self._shim.from_bytes}
        util.from_bytes(bytes_data, readers, exclude)
        follow_weights(self.model)
        return self

    def to_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> None:
        """Write the weights to the file `model.safetensors` in a folder.

        If the folder is inside a pipeline's folder, also write to the pipeline's files: settings
        that have changed (`config.cfg`), and the source and license of the weights
        (`LICENSES_SOURCES`, `license` in `meta.json`).

        path (Union[str, Path]): The pipe's folder.
        exclude (Iterable[str]): "model" to omit the weights.
        """
        # This may raise an error, so do it before anything is written.
        changes = changed_config(self._made_with, self.settings)
        # Write a new file instead of changing the old one: the model in use may read its weights
        # again from the old file.
        writers = {MODEL_FILE: lambda file: atomic_write(file, self._shim.to_bytes())}
        util.to_disk(path, writers, exclude)
        folder, name = Path(path).parent, Path(path).name
        if not names_pipe(folder, name):
            return
        self.take_name(name)  # spaCy saves the listeners later, with the name of this pipe.
        if self._shim.is_loaded and "model" not in exclude:
            write_in_pipeline(self.bilm.provenance, folder)
        sizes = self._shim.config.all_sizes() if self._shim.is_loaded else {}
        write_changes(changes, sizes, folder, name)

    def from_disk(self, path: Union[str, Path], *, exclude: Iterable[str] = ()) -> "Elmo":
        """Load the weights from a folder that `to_disk` wrote.

        path (Union[str, Path]): The pipe's folder.
        exclude (Iterable[str]): "model" to keep the current weights.
        RETURNS (Elmo): The pipe itself.
        """
        util.from_disk(path, {MODEL_FILE: self._shim.from_file}, exclude)
        follow_weights(self.model)
        return self

    def _check_language(self) -> None:
        """Warn once if the weights and the pipeline have different languages."""
        if self._has_checked_language:
            return
        self._has_checked_language = True
        lang = self._shim.load().provenance.get("lang")
        if lang not in (None, "xx", self.vocab.lang) and self.vocab.lang not in ("", "xx"):
            warnings.warn(
                f"the weights of '{self.name}' were trained on language '{lang}', but the pipeline "
                f"has language '{self.vocab.lang}', so its vectors will be poor. `python -m "
                f"spacy elmo download --list` lists weights by language.",
                stacklevel=3,
            )


def _setting(name: str) -> property:
    """Return a property of the pipe that reads and changes a setting."""

    def write(pipe: Elmo, value: Any) -> None:
        pipe.settings = replace(pipe.settings, **{name: value})

    return property(lambda pipe: getattr(pipe.settings, name), write)


for _field in fields(ElmoSettings):
    setattr(Elmo, _field.name, _setting(_field.name))
