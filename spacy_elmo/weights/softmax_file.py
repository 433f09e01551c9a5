"""Files of a softmax and its vocabulary, separate from the weights because few users need them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Optional

import numpy as np
from safetensors import SafetensorError

from ..files.errors import named_errors
from ..frozen.softmax import FrozenSoftmax, softmax_shapes
from ..model.vocabulary import Vocabulary
from .archives import File
from .bundle import Prediction
from .layout import plain, read_parameters
from .tensor_file import StoredTensors, load, read_file, save
from .vocabulary_files import read_lines

SOFTMAX_FILE = "softmax.safetensors"
WORDS = "words"


def softmax_to_bytes(
    prediction: Prediction, dtype: Optional[str] = None, *, words: bool = True
) -> bytes:
    """Convert a softmax and its words to the bytes of a file.

    dtype (Optional[str]): Type of the weights, one of `DTYPES`. Default: float16 for each tensor
        that loses nothing, and float32 for the others.
    RAISES (ValueError): A weight is too large for the type, or not finite.
    """
    softmax, vocabulary = prediction
    tensors = softmax.arrays()
    if words:
        tensors[WORDS] = np.frombuffer("\n".join(vocabulary.words).encode(), dtype="uint8")
    return save(tensors, dtype)


def read_softmax(path: Path, width: int, words_of: Optional[Path] = None) -> Prediction:
    """Read a softmax and its words.

    width (int): `projection_dim` of the model.
    words_of (Optional[Path]): File of the words. Default: they are in the softmax file.
    RAISES (ValueError): The file is broken, or softmax and words do not belong together.
    """
    with named_errors(path, SafetensorError):
        tensors = load(read_file(path))
    if words_of is not None:
        # The softmax has at least one number of two bytes per word.
        words = read_lines(words_of, path.stat().st_size // 2)
        return make_prediction(tensors, words, width, path, words_of)
    text = tensors.pop(WORDS, None)
    if text is None or text.dtype != np.uint8:
        raise ValueError(f"{path}: tensor '{WORDS}' is missing, or does not contain bytes")
    with named_errors(f"{path}: the words are not UTF-8"):
        words = text.tobytes().decode().split("\n")
    return make_prediction(tensors, words, width, path, path)


def make_prediction(
    tensors: Mapping[str, np.ndarray], words: list[str], width: int, path: File, words_of: File
) -> Prediction:
    """Make the pair of softmax and vocabulary, and check that their sizes match.

    `width` is `projection_dim` of the model. Error messages name the files `path` and `words_of`.

    RAISES (ValueError): Softmax and words have different sizes.
    """
    with named_errors(words_of):
        vocabulary = Vocabulary(words)
    kind = "full" if "weight" in tensors else "adaptive"
    shapes = softmax_shapes(kind, n_words=len(vocabulary), width=width)
    layout = [plain(name, shape, name) for name, shape in shapes.items()]
    stored = StoredTensors(tensors, str(path))
    sizes_from = f"the {len(vocabulary)} words of {words_of.name} and projection_dim {width}"
    return FrozenSoftmax(read_parameters(layout, stored, sizes_from)), vocabulary
