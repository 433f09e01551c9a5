"""Modules whose weights are in their file until somebody asks for them."""

import copy
import ctypes
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, Optional

from torch import nn

if TYPE_CHECKING:
    from typing_extensions import Self

_lock = threading.RLock()


def _renew_lock() -> None:
    """A forked process inherits the lock as it was, without the thread that held it."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_renew_lock)


def exclusively() -> AbstractContextManager[Any]:
    """RETURNS (ContextManager): What those hold who lay out weights, read them, or forget what
    was computed with them."""
    return _lock


class OffloadedModule(nn.Module):
    """A module that can leave its weights where they were read from. Whoever asks for one of
    its modules or weights, in any of PyTorch's ways, gets all of them back for good, since
    from then on they may be changed: as long as they are in their file, nobody has them.
    """

    _offloaded: frozenset[str] = frozenset()  # names of attributes that are not there
    _reader: Optional[Callable[[], "Self"]] = None
    _not_yet_used: Optional["Self"] = None

    @property
    def is_offloaded(self) -> bool:
        """RETURNS (bool): The weights are in their file."""
        return self._reader is not None

    def offload(self, reader: Callable[[], "Self"]) -> None:
        """Leave the weights, which nobody has been given, in their file. What has been read of
        it is kept until it has been used (`forget_weights`).

        reader (Callable[[], OffloadedModule]): Reads a module with the same frozen weights.
        """
        object.__setattr__(self, "_not_yet_used", copy.copy(self))  # it is no part of this one
        self._offloaded = frozenset({"_modules", *self._modules})
        del self.__dict__["_modules"]
        self._reader = reader

    def with_weights(self) -> "Self":
        """RETURNS (OffloadedModule): The module, or one that has just been read, for those who
        look at the weights, give them to nobody, and change nothing.
        RAISES (ValueError): The file was written to."""
        with exclusively():
            if self._reader is None:
                return self
            whole = self._not_yet_used or self._reader()
            whole.__dict__["_buffers"] = self._buffers  # which are not in the file
            return whole

    def forget_weights(self) -> None:
        """Free what has been read, if it can be read again."""
        if self._not_yet_used is not None:
            self._not_yet_used = None
            return_freed_memory()

    def bring_back(self) -> None:
        """Take the weights back.

        RAISES (ValueError): The file was written to.
        """
        with exclusively():
            if self._reader is not None:  # no other thread has come first
                self.__dict__["_modules"] = self.with_weights()._modules
                self._reader = self._not_yet_used = None
                self._offloaded = frozenset()

    def train(self, mode: bool = True) -> "Self":
        # What is offloaded is frozen, in evaluation mode, and stays so.
        return self if self.is_offloaded and not mode else super().train(mode)

    def requires_grad_(self, requires_grad: bool = True) -> "Self":
        is_so = self.is_offloaded and not requires_grad
        return self if is_so else super().requires_grad_(requires_grad)

    def __getattr__(self, name: str) -> Any:
        # PyTorch, too, gets at modules and weights by this dictionary alone.
        if name in self._offloaded:
            self.bring_back()
            if name == "_modules":
                return self.__dict__[name]
        return super().__getattr__(name)

    def __getstate__(self) -> dict[str, Any]:
        """What copies and other processes get: they have weights of their own."""
        own = {"_modules": self.with_weights()._modules, "_offloaded": frozenset()}
        return {**self.__dict__, **own, "_reader": None, "_not_yet_used": None}


def return_freed_memory() -> None:
    """Have the process give back what it has freed: glibc keeps up to 64 MB, and more between
    what is left. It takes some milliseconds."""
    with suppress(AttributeError, OSError, TypeError):  # another library
        ctypes.CDLL(None).malloc_trim(0)
