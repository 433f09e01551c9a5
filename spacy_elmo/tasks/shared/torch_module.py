"""PyTorch modules as Thinc layers whose sizes are only known at initialization."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import srsly
from spacy.errors import Errors
from thinc.api import Model, PyTorchShim, get_torch_default_device, torch2xp, xp2torch
from thinc.types import FloatsXd

from ...files.errors import named_errors, shortened
from ...files.optional import import_optional
from ...layers.shims import copy_shim, swapped_weights
from ...model.threads import limit_threads_after_fork

if TYPE_CHECKING:
    from torch.nn import Module


class ModuleShim(PyTorchShim):
    """Thinc shim of a PyTorch module that is created when its sizes are known.

    The module is saved as sizes and tensors, never as a pickle.

    build (Callable[..., Module]): Makes the module. The sizes are keyword arguments. `build` must
        be picklable: a class, a function at the top level of a module, or a `functools.partial`.
    """

    def __init__(self, build: "Callable[..., Module]"):
        require_torch()
        super().__init__(None, config={})
        self.build = build

    @property
    def module(self) -> "Module":
        """PyTorch module.

        RAISES (ValueError): The module is not created yet.
        """
        if self._model is None:
            raise ValueError("the model is not initialized. Call nlp.initialize first")
        return self._model

    def create(self, **sizes: int) -> None:
        """Create the module. The sizes are keyword arguments of `build`."""
        self.cfg = sizes
        # Thinc's arrays are float32, but the user can have set another default type in PyTorch.
        self._model = self.build(**sizes).float().to(get_torch_default_device())

    def copy(self) -> "ModuleShim":
        """Return a copy with a new id. Optimizers use the id as a key of the parameters."""
        return copy_shim(self)

    def to_device(self, device_type: str, device_id: int) -> None:
        """Move the module to a device, if the module is created."""
        if self._model is not None:
            super().to_device(device_type, device_id)

    @contextmanager
    def use_params(self, params: dict) -> Iterator[None]:
        """Context manager: use other parameters, such as the averages of the optimizer.

        params (Dict[Tuple[int, str], FloatsXd]): A key is the id of the shim and the name of a
            parameter.
        """
        with swapped_weights(self, self._model, params):
            yield

    def to_bytes(self) -> bytes:
        """Serialize the sizes and tensors. The result is empty if there is no module."""
        from safetensors.torch import save

        if self._model is None:
            return b""
        # safetensors refuses tensors that are not contiguous.
        tensors = {name: value.contiguous() for name, value in self._model.state_dict().items()}
        return srsly.msgpack_dumps({"config": self.cfg, "state": save(tensors)})

    def from_bytes(self, bytes_data: bytes) -> "ModuleShim":
        """Load a saved module. Before memory is allocated, check that sizes and tensors match.

        RAISES (ValueError): The sizes do not match the tensors or the architecture.
        """
        if not bytes_data:
            return self
        message = srsly.msgpack_loads(bytes_data)
        if not isinstance(message, dict) or not isinstance(message.get("config"), dict):
            raise ValueError("not the weights of a task's model: they contain no sizes")
        sizes = message["config"]
        module = _read_module(self.build, sizes, message.get("state"))
        self.cfg, self._model = sizes, module.to(get_torch_default_device())
        return self


def require_torch() -> None:
    """Check that PyTorch is installed.

    RAISES (ImportError): It is not installed.
    """
    import_optional(
        "torch",
        "Each of elmo_crf, elmo_srl, elmo_coref, elmo_qa, elmo_textpair and the encoders of "
        "spacy-elmo",
    )


def _read_module(build: "Callable[..., Module]", sizes: dict[str, int], state: Any) -> "Module":
    from safetensors import SafetensorError
    from safetensors.torch import load

    from ...bilm.meta_device import on_meta_device

    # A file must not override settings of the architecture, such as the number of layers: a wrong
    # value could make the module arbitrarily large.
    fixed = getattr(build, "keywords", {})
    bad = [name for name, size in sizes.items() if type(size) is not int or name in fixed]
    if bad:
        raise ValueError(f"saved weights of a task's model: '{bad[0]}' cannot be one of its sizes")
    kinds = (SafetensorError, ValueError, TypeError, RuntimeError)
    with named_errors(f"saved weights of a task's model with {shortened(sizes)}", kinds):
        with on_meta_device():
            module = build(**sizes)
        tensors = {name: tensor.float() for name, tensor in load(state).items()}
        for name, tensor in tensors.items():
            if not tensor.isfinite().all():
                raise ValueError(f"'{name}' contains values that are not finite")
        module.load_state_dict(tensors, assign=True)
    return module


def make_module(place: str, **sizes: Any) -> "Module":
    """Make a PyTorch module from the path of its class, such as `package.module:Class`.

    The call imports PyTorch.
    """
    return resolve_name(place)(**sizes)


def get_module_shim(model: Model) -> ModuleShim:
    """Return the ModuleShim of a layer that has exactly one shim."""
    shim = model.shims[0]
    assert isinstance(shim, ModuleShim)
    return shim


def check_initialized(model: Model, name: str) -> None:
    """Check that a component is initialized: its modules exist, and its number of labels is set.

    RAISES (ValueError): The component is not initialized (spaCy's error E109).
    """
    shims = [shim for layer in model.walk() for shim in layer.shims]
    missing = any(isinstance(shim, ModuleShim) and shim._model is None for shim in shims)
    if missing or model.has_dim("nO") is None:
        raise ValueError(Errors.E109.format(name=name))


def run_module(
    model: Model, inputs: Sequence[FloatsXd], is_train: bool, compute: "Callable[..., Sequence]"
) -> tuple[list[FloatsXd], Callable[[Sequence[FloatsXd]], list[FloatsXd]]]:
    """Run the PyTorch module of a layer, and return its outputs and the backward pass.

    model (Model): Its only shim is a `ModuleShim`.
    compute (Callable[..., Sequence[Tensor]]): Computes the outputs from two arguments: the module,
        and the list of inputs as tensors.
    RETURNS (Tuple[List[FloatsXd], Callable]): The outputs, and the backward pass, which converts
        gradients of the outputs to gradients of the inputs. It also adds to the gradients of the
        parameters.
    """
    import torch

    limit_threads_after_fork()
    module = get_module_shim(model).module.train(is_train)
    tensors = [xp2torch(x, requires_grad=is_train) for x in inputs]
    with torch.set_grad_enabled(is_train):
        outputs = list(compute(module, tensors))

    def backprop(d_outputs: Sequence[FloatsXd]) -> list[FloatsXd]:
        # An output that nothing was computed for, such as the scores of no pairs, has no gradient.
        reached = [pair for pair in zip(outputs, d_outputs) if pair[0].requires_grad]
        torch.autograd.backward([y for y, _ in reached], [xp2torch(dy) for _, dy in reached])
        pairs = zip(inputs, (tensor.grad for tensor in tensors))
        return [model.ops.xp.zeros_like(x) if g is None else torch2xp(g) for x, g in pairs]

    return [torch2xp(y) for y in outputs], backprop
