"""A stand-in of cupy and a GPU, on the CPU: its arrays refuse NumPy's, as cupy's do."""

import operator
from typing import Any

import numpy as np
import thinc.backends.cupy_ops
import thinc.shims.pytorch
import thinc.util
import torch
from thinc.api import Ops, set_current_ops

from spacy_elmo.layers import fitting
from spacy_elmo.tasks.shared import torch_module

# A device that is not named "cpu", so that a language model stays a PyTorch module.
DEVICE = torch.device("cpu:0")
OPERATORS = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"]
OPERATORS += ["lt", "le", "gt", "ge", "eq", "ne", "and", "or", "xor"]


class GPUArray:
    """An array as cupy's, which computes with its own kind and with scalars only."""

    __array_ufunc__ = None  # so that NumPy's arrays leave operators to this class

    def __init__(self, values):
        self.values = values

    def __array__(self, *_, **__):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __getattr__(self, name):
        if name in ("numpy", "__array_interface__", "__array_struct__", "values", "toDlpack"):
            raise AttributeError(name)
        return wrapped(getattr(self.values, name))

    def __getitem__(self, index):
        return wrapped(self.values[unwrapped(index)])

    def __setitem__(self, index, values):
        self.values[unwrapped(index)] = unwrapped(values)

    def __len__(self):
        return len(self.values)

    def __iter__(self):
        return map(wrapped, self.values)

    def __float__(self):
        return float(self.values)

    def __int__(self):
        return int(self.values)

    def __bool__(self):
        return bool(self.values)

    def __neg__(self):
        return GPUArray(-self.values)

    def __invert__(self):
        return GPUArray(~self.values)

    def __dlpack__(self, **settings):
        return self.values.__dlpack__(**settings)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()

    def get(self):
        return self.values.copy()


def _operators(name):
    function = getattr(operator, f"__{name}__")

    def forward(self, other):
        return wrapped(function(self.values, unwrapped(other)))

    def reflected(self, other):
        return wrapped(function(unwrapped(other), self.values))

    def in_place(self, other):
        self.values = getattr(operator, f"__i{name}__")(self.values, unwrapped(other))
        return self

    return {f"__{name}__": forward, f"__r{name}__": reflected, f"__i{name}__": in_place}


for _name in OPERATORS:
    for _method, _function in _operators(_name).items():
        setattr(GPUArray, _method, _function)


def unwrapped(value):
    """NumPy's form of what a function of the stand-in is given. Its arrays are refused."""
    if isinstance(value, GPUArray):
        return value.values
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}")
    if isinstance(value, (list, tuple)):
        return type(value)(map(unwrapped, value))
    return value


def wrapped(value):
    if isinstance(value, (np.ndarray, np.generic)):
        return GPUArray(np.asarray(value))
    if isinstance(value, (list, tuple)):
        return type(value)(map(wrapped, value))
    if callable(value) and not isinstance(value, type):
        return lambda *given, **settings: wrapped(
            value(*unwrapped(given), **{name: unwrapped(one) for name, one in settings.items()})
        )
    return value


class Cupy:
    """The functions of NumPy, for arrays of the stand-in."""

    ndarray = GPUArray

    def __getattr__(self, name):
        return wrapped(getattr(np, name))

    @staticmethod
    def asarray(values, dtype=None):
        """Like cupy's, it takes NumPy's arrays, too."""
        if isinstance(values, (list, tuple)):
            values = [one.values if isinstance(one, GPUArray) else one for one in values]
        values = values.values if isinstance(values, GPUArray) else values
        return GPUArray(np.array(values, dtype=dtype))

    array = asarray

    @staticmethod
    def split(values, places):
        """Like cupy's, it takes places that NumPy computed."""
        return wrapped(np.split(values.values, places))

    @staticmethod
    def asnumpy(values):
        return values.get() if isinstance(values, GPUArray) else np.asarray(values)


CUPY = Cupy()


class StandInOps(Ops):
    """Thinc's operations on the stand-in's arrays: its general ones, which need no kernels."""

    name = "stand-in"
    xp = CUPY

    def to_numpy(self, data, *, byte_order=None):
        return CUPY.asnumpy(data)

    def clip_gradient(self, gradient, threshold):
        norm = np.linalg.norm(gradient.values)
        if norm >= threshold:
            gradient *= float(threshold / norm)
        return gradient

    def scatter_add(self, table, indices, values):
        np.add.at(table.values, unwrapped(indices), unwrapped(values))
        return table


def use_stand_in(monkeypatch: Any) -> None:
    """Let Thinc and the package take the stand-in for a GPU until the test ends."""
    for name, value in {
        "has_cupy": True,
        "cupy": CUPY,
        "is_torch_cuda_array": lambda tensor: True,
        "cupy_from_dlpack": lambda capsule: GPUArray(torch.from_dlpack(capsule).numpy()),
    }.items():
        monkeypatch.setattr(thinc.util, name, value)
    for place in (thinc.backends, thinc.backends.cupy_ops):
        monkeypatch.setattr(place, "CupyOps", StandInOps)
    for place in (thinc.util, thinc.shims.pytorch, fitting, torch_module):
        monkeypatch.setattr(place, "get_torch_default_device", lambda: DEVICE)
    set_current_ops(StandInOps())
