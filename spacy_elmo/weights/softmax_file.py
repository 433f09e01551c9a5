"""A language model's softmax and its words, in files of their own: they are read when asked for."""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from ..bilm.meta_device import on_meta_device
from ..bilm.softmax import make_softmax
from ..files import atomic_write
from ..files.errors import bounded, named_errors
from ..frozen.vocabulary import Vocabulary
from .archives import File
from .bundle import Prediction
from .tensor_file import cast, read_file

SOFTMAX_FILE = "softmax.safetensors"
WORDS = "words"


def write_softmax(
    prediction: Prediction, path: Path, dtype: torch.dtype = torch.float32, *, words: bool = True
) -> None:
    """Write a softmax, whole or not at all.

    path (Path): The file to write; the other arguments are those of `to_bytes`.
    RAISES (ValueError): A weight is too large for the type.
    """
    atomic_write(path, to_bytes(prediction, dtype, words=words))


def to_bytes(
    prediction: Prediction, dtype: torch.dtype = torch.float32, *, words: bool = True
) -> bytes:
    """Make the content of a file.

    prediction (Tuple[Softmax, Vocabulary]): The softmax, and its words.
    dtype (torch.dtype): Type of the weights on disk; they are read as float32.
    words (bool): Whether the words stand in the file, too.
    RETURNS (bytes): The content.
    RAISES (ValueError): A weight is too large for the type.
    """
    softmax, vocabulary = prediction
    tensors = {name: cast(name, value, dtype) for name, value in softmax.state_dict().items()}
    if words:
        text = bytearray("\n".join(vocabulary.words).encode())
        tensors[WORDS] = torch.frombuffer(text, dtype=torch.uint8)
    # Not by `save_file`: its errors are no OSError, and others may not read its file.
    content: bytes = save(tensors)
    return content


def read_tensors(path: Path) -> dict[str, Tensor]:
    """RETURNS (Dict[str, Tensor]): The tensors of a file.
    RAISES (ValueError): It is broken."""
    with named_errors(path, SafetensorError):
        return load(read_file(path))


def read_softmax(path: Path, width: int) -> Prediction:
    """Read a softmax whose words stand in its file.

    path (Path): The file.
    width (int): `projection_dim` of the model that it belongs to.
    RETURNS (Tuple[Softmax, Vocabulary]): The softmax in float32, and its words.
    RAISES (ValueError): The file is broken, or they do not fit one another.
    """
    tensors = read_tensors(path)
    text = tensors.pop(WORDS, None)
    if text is None or text.dtype != torch.uint8:
        raise ValueError(f"{path}: there is no tensor '{WORDS}' of bytes in it")
    with named_errors(f"{path}: its words are no UTF-8"):
        words = text.numpy().tobytes().decode().split("\n")
    return make_prediction(tensors, words, width, path, path)


def make_prediction(
    tensors: Mapping[str, Tensor], words: list[str], width: int, path: File, words_of: File
) -> Prediction:
    """Put a softmax and its words together.

    tensors (Mapping[str, Tensor]): The softmax's weights, of any floating-point type.
    words (List[str]): The words.
    width (int): `projection_dim` of the model that they belong to.
    path (Union[Path, zipfile.Path]): The file of the weights, for the message.
    words_of (Union[Path, zipfile.Path]): That of the words.
    RETURNS (Tuple[Softmax, Vocabulary]): The softmax in float32, frozen, and its words.
    RAISES (ValueError): They do not fit one another.
    """
    with named_errors(words_of):
        vocabulary = Vocabulary(words)
    try:
        kind = "full" if "weight" in tensors else "adaptive"
        with on_meta_device():
            softmax = make_softmax(kind, n_words=len(vocabulary), width=width)
        exact = {name: value.to(torch.float32) for name, value in tensors.items()}
        softmax.load_state_dict(exact, assign=True)
    except RuntimeError as error:
        raise ValueError(
            f"{path}: does not fit the {len(vocabulary)} words of {words_of.name} and "
            f"projection_dim {width}: {bounded(' '.join(str(error).split()))}"
        ) from error
    return softmax.eval().requires_grad_(False), vocabulary
