"""Format of spacy-elmo: one `.safetensors` file.

The metadata in the header contain config and provenance. Vocabularies are tensors of bytes, because
large vocabularies do not fit into the header.
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, Optional

import numpy as np
import srsly
from safetensors import SafetensorError, safe_open

from ..files import atomic_stream, atomic_write, put_on_disk
from ..files.errors import bounded, named_errors
from ..frozen.model import FrozenBiLM
from ..frozen.softmax import FrozenSoftmax
from ..model.config import BiLMConfig, parameter_shapes
from ..model.memory import Arrays, Weights
from ..model.vocabulary import InputVocabulary, Vocabularies
from .archives import File, beside_weights, places_of
from .attribution import take_attribution
from .bundle import Format, ModelBundle, checked_provenance
from .layout import open_files, plain, read_parameters, reread
from .softmax_file import SOFTMAX_FILE, read_softmax, softmax_to_bytes
from .tensor_file import N_SIZE, StoredTensors, header_size, load, read_file, save
from .vocabulary_files import largest_text

FORMAT = "spacy-elmo"
SUFFIX = ".safetensors"
MODEL_FILE = "model.safetensors"
VOCABULARY = "vocabulary."
ALIGNMENT = "alignment"
_DTYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "F64": "float64"}


class SafetensorsFile(Format):
    """Model in a file `NAME.safetensors`. Its softmax is in `NAME.softmax.safetensors`."""

    name = "safetensors"
    suffixes: ClassVar[tuple[str, ...]] = (SUFFIX,)
    keeps_alignment = True
    rounds_softmax = True

    def __init__(self, file: Path):
        self.file = file

    @classmethod
    def find(cls, path: File) -> Optional["SafetensorsFile"]:
        """Find a model by its file, or by a folder that contains no other `.safetensors` model."""
        if not isinstance(path, Path) or path.is_file():
            return cls(path) if isinstance(path, Path) and path.suffix == SUFFIX else None
        file = find_one(path, f"*{SUFFIX}", f".{SOFTMAX_FILE}")
        return None if file is None else cls(file)

    def read(self, *, weights_only: bool = False, softmax: bool = True) -> ModelBundle:
        """Read the weights, the attribution file and the softmax."""
        bilm = read(self.file)
        take_attribution(bilm.provenance, self.file)
        bundle = ModelBundle(bilm, lang=bilm.provenance.get("lang"))
        file = self._softmax()
        if softmax and file is not None and not weights_only:
            beside_weights(file, self.file)
            bundle.prediction = read_softmax(file, bilm.config.projection_dim)
        return bundle

    def files(self) -> list[Path]:
        """Return the weights, and the softmax if there is one."""
        return [file for file in (self.file, self._softmax()) if file is not None]

    def _softmax(self) -> Optional[Path]:
        """Return the file of the softmax; None if there is none."""
        files = (softmax_of(place) for place in places_of(self.file) if isinstance(place, Path))
        return next((file for file in files if file.is_file()), None)

    def dtype(self) -> Optional[str]:
        """Return the types of the weights, such as "float32"."""
        with safe_open(self.file, framework="numpy") as file:
            kinds = {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
        return ", ".join(sorted(_DTYPES[kind] for kind in kinds if kind in _DTYPES)) or None

    @classmethod
    def write(cls, bundle: ModelBundle, target: Path, dtype: str = "float32") -> None:
        """Write weights and softmax. The softmax of an overwritten model is deleted."""
        content, softmax = to_bytes(bundle.bilm, dtype), softmax_of(target)
        with ExitStack() as later:
            if bundle.prediction is not None:
                file = later.enter_context(atomic_stream(softmax))
                file.write(softmax_to_bytes(bundle.prediction, dtype))
                put_on_disk(file)
            with atomic_stream(target) as file:
                file.write(content)
                put_on_disk(file)  # If the disk is full, the old model stays complete.
                # Delete the old softmax before the weights appear. A softmax must never be next to
                # the weights of another model.
                softmax.unlink(missing_ok=True)

    @classmethod
    def targets(cls, target: Path) -> list[Path]:
        """Return the paths of weights and softmax."""
        return [target, softmax_of(target)]

    @classmethod
    def stores_softmax(cls, softmax: FrozenSoftmax) -> bool:
        """Return True, because the format can store any softmax."""
        return True


def softmax_of(file: Path) -> Path:
    """Return the path of the softmax file that belongs to a weights file."""
    return file.with_name(f"{file.stem}.{SOFTMAX_FILE}")


def read(file: Path) -> FrozenBiLM:
    """Read a model from a file.

    The file stays open if possible, so that the model can drop its weights to save memory, and read
    them again.

    RAISES (ValueError): The file is broken.
    """
    files, source = open_files(file), str(file)
    data = read_file(file)
    again = reread(files, lambda opened: _parameters(read_file(opened), source)[1])
    return from_bytes(data, source, again)


def find_one(folder: Path, pattern: str, *besides: str) -> Optional[Path]:
    """Find the only file of a folder that matches a glob pattern; None if there is no such file.

    besides (str): Endings of file names to ignore.
    RAISES (ValueError): Several files match.
    """
    files = (file for file in folder.glob(pattern) if not file.name.endswith(besides))
    found = sorted(file for file in files if not file.name.startswith("."))
    if len(found) > 1:
        names = ", ".join(str(file.relative_to(folder)) for file in found)
        raise ValueError(f"{folder} contains several models: {names}. Give the path of one")
    return found[0] if found else None


def write(bilm: FrozenBiLM, path: Path, dtype: str = "float32") -> None:
    """Write a model to a file. If this fails, an existing file stays unchanged.

    dtype (str): Type of the weights on disk, one of `DTYPES`.
    RAISES (ValueError): A weight is too large for the type, or not finite.
    """
    atomic_write(path, to_bytes(bilm, dtype))


def to_bytes(bilm: FrozenBiLM, dtype: Optional[str] = None) -> bytes:
    """Convert a model to the bytes of a file.

    dtype (Optional[str]): Type of the weights, one of `DTYPES`. Default: float16 for each tensor
        that loses nothing, and float32 for the others.
    RAISES (ValueError): A weight is too large for the type, or not finite.
    """
    metadata = {
        "format": FORMAT,
        "config": srsly.json_dumps(bilm.config.to_dict()),
        "provenance": srsly.json_dumps(bilm.provenance),
    }
    tensors = bilm.arrays()
    for name, vocabulary in bilm.vocabularies._asdict().items():
        if vocabulary is not None:
            tensors[VOCABULARY + name] = np.frombuffer(vocabulary.to_bytes(), dtype="uint8")
    return save(tensors, dtype, metadata)


def from_bytes(
    data: bytes, source: str = "the given bytes", read: Optional[Callable[[], Arrays]] = None
) -> FrozenBiLM:
    """Make a model from the bytes of a file.

    source (str): Name of the file in error messages.
    read (Optional[Callable]): Function that reads the parameters again; see `Weights`.
    RAISES (ValueError): The bytes are broken, or not a model of spacy-elmo.
    """
    (config, vocabularies, provenance), parameters = _parameters(data, source)
    alignment = parameters.pop(ALIGNMENT, None)
    with named_errors(source):
        return FrozenBiLM(
            config,
            vocabularies,
            Weights(parameters, read),
            alignment=None if alignment is None else alignment.astype("float32"),
            provenance=checked_provenance(provenance, source),
        )


def _parameters(
    data: bytes, source: str
) -> tuple[tuple[BiLMConfig, Vocabularies, Any], dict[str, np.ndarray]]:
    """Read config, vocabularies, provenance, and the arrays by name from the bytes of a file.

    The arrays are the parameters, and the alignment matrix if there is one.
    """
    try:
        tensors = load(data)
        metadata = _metadata(data)
        config = BiLMConfig.from_dict(srsly.json_loads(metadata["config"]))
        with named_errors("the provenance is not valid JSON"):
            provenance = srsly.json_loads(metadata.get("provenance", "{}"))
    except KeyError:
        raise ValueError(
            f"{source}: the metadata of spacy-elmo are missing. "
            f"Give a .safetensors file that spacy-elmo wrote"
        ) from None
    except (SafetensorError, ValueError, TypeError) as error:
        raise ValueError(f"{source}: not a readable .safetensors file: {bounded(error)}") from error
    with named_errors(source):
        vocabularies = _take_vocabularies(tensors, config)
    shapes = parameter_shapes(config)
    if ALIGNMENT in tensors:
        shapes[ALIGNMENT] = (config.width, config.width)
    layout = [plain(name, shape, name) for name, shape in shapes.items()]
    parameters = read_parameters(layout, StoredTensors(tensors, source), "its own config")
    return (config, vocabularies, provenance), parameters


def _take_vocabularies(tensors: dict[str, np.ndarray], config: BiLMConfig) -> Vocabularies:
    found: dict[str, InputVocabulary] = {}
    for name, size in (("characters", config.n_characters), ("words", config.n_words)):
        tensor = tensors.pop(VOCABULARY + name, None)
        if tensor is None:
            continue
        if tensor.dtype != np.uint8:
            raise ValueError(f"tensor '{VOCABULARY}{name}' contains {tensor.dtype}, not bytes")
        with named_errors(f"tensor '{VOCABULARY}{name}'"):
            if tensor.size > largest_text(size):
                raise ValueError(f"{tensor.size:,} bytes for {size:,} embeddings")
            found[name] = InputVocabulary.from_bytes(tensor.tobytes(), size)
    return Vocabularies(**found)


def _metadata(data: bytes) -> dict[str, Any]:
    header = data[N_SIZE : N_SIZE + header_size(data)].decode("utf8")
    return srsly.json_loads(header)["__metadata__"]
