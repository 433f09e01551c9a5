"""Reader of the pickles in state dicts of PyTorch, which runs nothing from the file.

A pickle is a program. `torch.load(weights_only=True)` allows few calls, but does not limit time and
memory, and it reads the archive around the pickle with another library than a check before it
could. A member `DATA.PKL`, which a check for `data.pkl` does not see, crashed the process. So there
is only this reader. It knows the few opcodes and names that PyTorch writes for a dict of tensors,
and makes strings, numbers, tuples, lists, dicts and descriptions of tensors from them. Everything
else is refused. Keys of dicts must be strings, because the hash of nested tuples may need endless
time or stack.
"""

import pickletools
from io import BytesIO
from typing import Any, NamedTuple

from ..files.errors import shortened
from .limits import LARGEST_PICKLE, MAX_DIMENSIONS

# NumPy types of the storages. NumPy has no bfloat16, so these are the bits.
BFLOAT16 = "u2"
_DTYPES = {
    "torch BFloat16Storage": BFLOAT16,
    "torch DoubleStorage": "f8",
    "torch FloatStorage": "f4",
    "torch HalfStorage": "f2",
}
_DICT = "collections OrderedDict"
_TENSORS = ("torch._utils _rebuild_tensor", "torch._utils _rebuild_tensor_v2")
_PARAMETER = "torch._utils _rebuild_parameter"
_ALLOWED = {_DICT, *_TENSORS, _PARAMETER, *_DTYPES}
_STRINGS = {"BINUNICODE", "BINSTRING", "SHORT_BINSTRING"}
_VALUES = {*_STRINGS, "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"}
_EMPTY: dict[str, type] = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
_CONSTANTS = {"NONE": None, "NEWFALSE": False, "NEWTRUE": True}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class Refused(Exception):
    """Error for a file with content that does not belong in a state dict."""


class Storage(NamedTuple):
    """Values of one or more tensors, in a part of the file.

    key (str): Name of the part.
    dtype (str): NumPy type without byte order; `BFLOAT16` for the bits of bfloat16.
    size (int): Number of values.
    """

    key: str
    dtype: str
    size: int


class Tensor(NamedTuple):
    """Tensor that a pickle describes. Offset and strides count values of the storage, not bytes."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _Imported(NamedTuple):
    name: str


def read_pickle(stream: BytesIO) -> Any:
    """Read one pickle, and leave the stream at its end.

    stream (BytesIO): The pickle, and any bytes after it.
    RETURNS (Any): Strings, numbers, tuples, lists, dicts and `Tensor`.
    RAISES (Refused): The pickle is too large, or has content that does not belong in a state dict.
    RAISES (Exception): This is not a pickle.
    """
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[Any, Any] = {}

    def above_mark() -> list[Any]:
        start = marks.pop()
        items = stack[start:]
        del stack[start:]
        return items

    for opcode, argument, _ in pickletools.genops(stream):
        name = opcode.name
        check_size(stream.tell())
        if name in _VALUES:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name in _EMPTY:
            stack.append(_EMPTY[name]())
        elif name in _TUPLES:
            items = [stack.pop() for _ in range(_TUPLES[name])]
            stack.append(tuple(reversed(items)))
        elif name == "MARK":
            marks.append(len(stack))
        elif name == "TUPLE":
            stack.append(tuple(above_mark()))
        elif name in ("APPEND", "APPENDS"):
            items = above_mark() if name == "APPENDS" else [stack.pop()]
            _of_type(list, stack[-1]).extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = above_mark() if name == "SETITEMS" else [stack.pop(), stack.pop()][::-1]
            if len(items) % 2:
                raise Refused("its pickle has a key without a value")
            _put(_of_type(dict, stack[-1]), list(zip(items[::2], items[1::2])))
        elif name in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name == "GLOBAL":
            stack.append(_imported(str(argument)))
        elif name == "BINPERSID":
            stack.append(_storage(stack.pop()))
        elif name == "REDUCE":
            arguments = _of_type(tuple, stack.pop())
            stack.append(_call(_of_type(_Imported, stack.pop()).name, arguments))
        elif name == "BUILD":
            stack.pop()  # The attribute `_metadata` of a state dict: versions of its modules.
            _of_type(dict, stack[-1])
        elif name not in ("PROTO", "STOP"):
            raise Refused(f"its pickle has the opcode {name}, which no state dict needs")
    return stack.pop()


def check_size(n_bytes: int) -> None:
    """Check the size of the pickles in a file.

    RAISES (Refused): They are too large.
    """
    if n_bytes > LARGEST_PICKLE:
        raise Refused(f"its pickles have more than {LARGEST_PICKLE:,} bytes")


def _imported(name: str) -> _Imported:
    if name not in _ALLOWED:
        asked = shortened(name.replace(" ", "."))
        raise Refused(f"its pickle asks for {asked}, which no state dict needs")
    return _Imported(name)


def _call(name: str, arguments: tuple[Any, ...]) -> Any:
    """Return what a call of an imported name with these arguments makes."""
    if name == _DICT:
        content: dict[str, Any] = {}
        if arguments:  # Python 2 wrote the items as the only argument.
            (items,) = arguments
            _put(content, _of_type(list, items))
            # A few bytes can pass the same list again. Then its items would be copied each time.
            items.clear()
        return content
    if name in _TENSORS:
        storage, offset, shape, strides = arguments[:4]
        n_numbers = max(map(len, (_of_type(tuple, shape), _of_type(tuple, strides))))
        if n_numbers > MAX_DIMENSIONS:
            raise Refused(f"its pickle has a tensor of {n_numbers:,} dimensions")
        _of_type(int, offset, *shape, *strides)
        return Tensor(_of_type(Storage, storage), offset, shape, strides)
    if name == _PARAMETER:
        return _of_type(Tensor, arguments[0])
    raise Refused("its pickle calls a type of storages, which no state dict does")


def _storage(place: Any) -> Storage:
    """Make a storage from its description: a tuple that begins with the word "storage"."""
    _, kind, key, _, size, *view = _of_type(tuple, place)
    name = _of_type(_Imported, kind).name
    if name not in _DTYPES or view not in ([], [None]):
        raise Refused("its pickle describes a storage as no state dict does")
    return Storage(_of_type(str, key), _DTYPES[name], _of_type(int, size))


def _put(content: dict[str, Any], items: list[Any]) -> None:
    for key, value in items:
        content[_of_type(str, key)] = value


def _of_type(kind: type, first: Any, *more: Any) -> Any:
    """Return the first object. Raise an error if one of the objects has another type."""
    for value in (first, *more):
        if type(value) is not kind:
            raise Refused(
                f"its pickle has a {type(value).__name__} in place of a {kind.__name__}, which no "
                f"state dict has"
            )
    return first
