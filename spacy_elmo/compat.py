"""Private and undocumented parts of other libraries: the only module that uses them.

A library can change these parts without notice. So each one has a function here, which says in what
version the part was seen, and a test in `tests/test_compat.py` that fails when the library changes.
All other modules use documented interfaces; `tests/test_layering.py` checks it.

`tasks/texts/textpair.py` overrides one more private part, spaCy's method
`TextCategorizer._examples_to_truth`, because spaCy reads the labels of a text there.
"""

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Optional

if TYPE_CHECKING:
    from spacy.pipeline import TrainablePipe
    from thinc.api import Model
    from torch import Tensor
    from typer import Typer

# spaCy


def extension_key(name: str) -> tuple[str, str, None, None]:
    """Return the key in `doc.user_data` of the custom attribute `doc._.NAME`.

    Seen in spaCy 3.8.18: `spacy.tokens.underscore.Underscore._get_key`.
    """
    return ("._.", name, None, None)


def require_labels(pipe: "TrainablePipe") -> None:
    """Check that a trainable pipe has labels.

    Seen in spaCy 3.8.18: `TrainablePipe._require_labels`.

    RAISES (ValueError): It has no labels (spaCy's E143).
    """
    pipe._require_labels()


def spacy_app() -> "Typer":
    """Return the command line application `python -m spacy`.

    Seen in spaCy 3.8.18: `spacy.cli._util.app`.
    """
    from spacy.cli._util import app

    return app


def config_overrides(args: list[str]) -> dict[str, Any]:
    """Convert command line options such as `--training.seed 1` to settings of a config.

    Seen in spaCy 3.8.18: `spacy.cli._util.parse_config_overrides`.
    """
    from spacy.cli._util import parse_config_overrides

    return parse_config_overrides(args)


def import_code(path: Optional[Path]) -> None:
    """Import a Python file, as the option `--code` of spaCy's commands does; nothing if None.

    Seen in spaCy 3.8.18: `spacy.cli._util.import_code`.
    """
    from spacy.cli._util import import_code

    import_code(path)


def setup_gpu(gpu_id: int) -> None:
    """Use a GPU, as the option `--gpu-id` of spaCy's commands does; the CPU if the number is -1.

    Seen in spaCy 3.8.18: `spacy.cli._util.setup_gpu`.
    """
    from spacy.cli._util import setup_gpu

    setup_gpu(gpu_id, silent=True)


# Thinc


def init_residual(model: "Model", X: Any, Y: Any) -> None:
    """Initialize Thinc's layer `residual(...)` from a batch of inputs and one of outputs.

    Seen in Thinc 8.3.14: `thinc.layers.residual.init`.
    """
    from thinc.layers.residual import init

    init(model, X=X, Y=Y)


# PyTorch


def sigmoid_backward(gradient: "Tensor", outputs: "Tensor", out: "Tensor") -> None:
    """Write the gradient before a sigmoid to `out`, without a copy. It can be `gradient` itself.

    Seen in PyTorch 2.13: `torch.ops.aten.sigmoid_backward.grad_input`.
    """
    import torch

    torch.ops.aten.sigmoid_backward.grad_input(gradient, outputs, grad_input=out)


def tanh_backward(gradient: "Tensor", outputs: "Tensor", out: "Tensor") -> None:
    """Write the gradient before a tanh to `out`, without a copy. It can be `gradient` itself.

    Seen in PyTorch 2.13: `torch.ops.aten.tanh_backward.grad_input`.
    """
    import torch

    torch.ops.aten.tanh_backward.grad_input(gradient, outputs, grad_input=out)


def clip_backward(gradient: "Tensor", clipped: "Tensor", bound: float) -> None:
    """Set a gradient to 0, in place, where values were clipped to `-bound` or `bound`.

    Values at a bound count as clipped.

    Seen in PyTorch 2.13: `torch.ops.aten.hardtanh_backward.grad_input`.
    """
    import torch

    torch.ops.aten.hardtanh_backward.grad_input(
        gradient, clipped, -bound, bound, grad_input=gradient
    )


def packed_lstm(
    inputs: "Tensor",
    batch_sizes: Iterable[int],
    state: tuple["Tensor", "Tensor"],
    weights: list["Tensor"],
    *,
    train: bool,
) -> tuple["Tensor", "Tensor", "Tensor"]:
    """Run PyTorch's LSTM of one layer and one direction with given weights.

    `torch.nn.LSTM` has its own weights, in another order of the gates.

    Seen in PyTorch 2.13: `torch.lstm`, which `torch.nn.LSTM.forward` calls.

    inputs (Tensor): Packed inputs. *Shape:* `(sum(batch_sizes), n_inputs)`
    batch_sizes (Iterable[int]): Number of sequences in each step, in non-increasing order.
    state (Tuple[Tensor, Tensor]): Initial hidden and cell state. *Shape:* `(1, n_rows, width)` each
    weights (List[Tensor]): Input weight, state weight, their two biases, and maybe a projection,
        with the gates in the order i, f, j, o.
    train (bool): Whether a backward pass follows.
    RETURNS (Tuple[Tensor, Tensor, Tensor]): The packed outputs, and the final states.
    """
    import torch

    has_biases, n_layers, dropout, is_bidirectional = True, 1, 0.0, False
    return torch.lstm(
        inputs,
        torch.tensor(list(batch_sizes)),
        state,
        weights,
        *(has_biases, n_layers, dropout, train, is_bidirectional),
    )


def cpu_has_bfloat16() -> bool:
    """Check whether the processor has instructions for bfloat16. If unknown, return False.

    Seen in PyTorch 2.13: `torch.cpu._is_avx512_bf16_supported`, `torch.cpu._is_amx_tile_supported`.
    """
    import torch

    names = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, name, bool)() for name in names)


# Python


def zip_directory_size(stream: BinaryIO) -> Optional[int]:
    """Return the size of a zip archive's list of entries, which `zipfile.ZipFile` reads at once.

    Seen in Python 3.10 to 3.14: `zipfile._EndRecData`.

    stream (BinaryIO): The archive. Its position changes.
    RETURNS (Optional[int]): The size in bytes; None if this is no zip archive.
    """
    end = zipfile._EndRecData(stream)  # type: ignore[attr-defined]
    return None if end is None else int(end[zipfile._ECD_SIZE])  # type: ignore[attr-defined]
