"""State dicts without PyTorch: read as PyTorch reads them, while hostile ones are refused."""

import pickle
import struct
import sys
import warnings
import zipfile
from collections import OrderedDict

import numpy as np
import pytest
import torch

from spacy_elmo.weights.limits import LARGEST_PICKLE
from spacy_elmo.weights.state_dict_file import read_state_dict

from helpers.conversions import read_zip, write_zip
from helpers.models import check_refused

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
START = b"\x80\x02ccollections\nOrderedDict\n)R"
# The start of a file of the old format: magic number, version, and a system without entries.
OLD = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}."
DOUBLED = b"K\x01K\x02\x86q\x00" + b"h\x00\x86q\x00" * 60
BOMB = START + DOUBLED + b"Ns."
DEEP = START + b")" + b"\x85" * 60_000 + b"Ns."


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def number(value):
    return b"\x8a\x08" + struct.pack("<q", value)


def tensor(size=6, shape=(2, 3), strides=(3, 1), offset=0, key="0", kind="FloatStorage", end=b""):
    """Return the opcodes of a tensor."""
    sizes = [b"(" + b"".join(map(number, numbers)) + b"t" for numbers in (shape, strides)]
    storage = b"(" + text("storage") + b"ctorch\n" + kind.encode() + b"\n" + text(key)
    return (
        b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + text("cpu") + number(size) + end
        + b"tQ" + number(offset) + b"".join(sizes) + b"\x89}tR"
    )  # fmt: skip


def pickled(*tensors):
    items = b"".join(text(f"t{i}") + one for i, one in enumerate(tensors))
    return START + b"(" + items + b"u."


def archive(path, pickle, **more):
    """Write a file as PyTorch does. `more` adds or replaces members; None removes one."""
    values = np.arange(6, dtype="<f4").tobytes()
    members = {"data.pkl": pickle, "byteorder": b"little", "data/0": values, "version": b"3\n"}
    kept = {name: data for name, data in {**members, **more}.items() if data is not None}
    return write_zip(path, {f"archive/{name}": data for name, data in kept.items()})


def old(path, pickle, keys=("0",), sizes=(6,)):
    listed = b"\x80\x02](" + b"".join(map(text, keys)) + b"e."
    values = np.arange(6, dtype="<f4").tobytes()
    parts = b"".join(struct.pack("<q", size) + values for size in sizes)
    path.write_bytes(OLD + pickle + listed + parts)
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.pkl"


@pytest.mark.parametrize("is_old", [False, True])
def test_state_dicts_are_read_as_by_pytorch(path, is_old):
    torch.manual_seed(1)
    values = torch.randn(6, 8)
    state = torch.nn.LSTM(3, 2, bidirectional=True).state_dict()
    state.update((str(dtype), values.to(dtype)) for dtype in DTYPES)
    state |= {"part": values[2:4, 1:7:2], "turned": values.T, "one": torch.tensor(3.5)}
    state |= {"empty": torch.zeros(0, 4), "parameter": torch.nn.Parameter(values), "again": values}
    torch.save(state, path, _use_new_zipfile_serialization=not is_old)
    found, wanted = read_state_dict(path), torch.load(path, weights_only=True)
    assert list(found) == list(wanted)
    for name, value in wanted.items():
        assert found.shape(name) == value.shape
        assert found.read(name).dtype == "float32"
        np.testing.assert_array_equal(found.read(name), value.detach().float())


def test_pickles_of_python_2_are_read(path):
    """Python 2 wrote strings without an encoding, and items of an OrderedDict as an argument."""
    one = tensor().replace(text("0"), b"U\x010").replace(text("storage"), b"U\x07storage")
    items = b"](](U\x01a" + one + b"ee"
    found = read_state_dict(old(path, START[:-2] + items + b"\x85R."))
    np.testing.assert_array_equal(found.read("a"), np.arange(6).reshape(2, 3))


def test_big_endian_files_are_read(path):
    values = np.arange(6, dtype=">f4").tobytes()
    archive(path, pickled(tensor()), **{"byteorder": b"big", "data/0": values})
    np.testing.assert_array_equal(read_state_dict(path).read("t0"), np.arange(6).reshape(2, 3))
    wanted = torch.load(path, weights_only=True)["t0"]
    np.testing.assert_array_equal(wanted, np.arange(6).reshape(2, 3))


HUGE = 2**40
MANY = (1,) * 65
BROKEN = [
    # Values that are not in the file.
    (pickled(tensor(size=7)), "claims to contain"),
    (pickled(tensor(shape=(HUGE, HUGE), strides=(0, 0))), "claims to contain"),
    (pickled(tensor(shape=(3, 2), strides=(3, 1))), ""),
    (pickled(tensor(offset=1)), ""),
    (pickled(tensor(offset=-1)), ""),
    (pickled(tensor(strides=(-3, 1), offset=3)), "wrong strides"),
    (pickled(tensor(shape=(-2, -3))), "wrong shape"),
    (pickled(tensor(shape=(6,))), "wrong strides"),
    # The product of many large numbers may take hours, and few bytes can repeat it.
    (pickled(tensor(shape=MANY)), "a tensor of 65 dimensions"),
    (pickled(tensor(strides=MANY)), "a tensor of 65 dimensions"),
    # One part of the file, to be read a thousand times.
    (pickled(*(tensor(size=i) for i in range(1000))), "two of its storages have the same key"),
    (pickled(tensor(), tensor(kind="HalfStorage")), "two of its storages have the same key"),
    (pickled(tensor(), tensor(key="1")), "the values of storage '1' are missing"),
    (pickled(tensor(key="../data.pkl")), "the values of storage"),
    # Types, calls and opcodes that no state dict has.
    (pickled(tensor(kind="LongStorage")), "asks for 'torch.LongStorage'"),
    (pickled(tensor(end=b"(" + text("1") + b"K\x00K\x01t")), "describes a storage"),
    (pickled(b"K\x01"), "not a state dict"),
    (pickled(b"ctorch\nFloatStorage\n(K\x01tR"), "calls a type of storages"),
    (pickled(b"ctorch._utils\n_rebuild_tensor\n(K\x01K\x02K\x03K\x04tR"), "in place of a"),
    (pickled(b"ctorch._utils\n_rebuild_parameter\n(K\x01tR"), "int in place of a Tensor"),
    (pickled(b"cbuiltins\nbytearray\n" + number(10**11) + b"\x85R"), "asks for"),
    (pickled(b"(ios\nsystem\n"), "opcode INST"),
    (pickled(text("os") + text("system") + b"\x93"), "opcode STACK_GLOBAL"),
    (pickled(b""), "a key without a value"),
    (pickled(b"j\xff\xff\xff\x7f"), ""),
    (START[:-2] + b"(" + b"]" * 3 + b"tR.", ""),
    (b"\x80\x02](K\x01K\x02e.", "not a state dict"),
    (b"", ""),
    # Keys that are no strings. A pickle can name an object twice, so sixty doublings are sixty
    # tuples, but a hash of them takes endless time.
    (BOMB, "tuple in place of a str"),
    (DEEP, "tuple in place of a str"),
    (START + text("a") + DOUBLED + b"s.", "not a state dict"),
]


@pytest.mark.parametrize("write", [archive, old])
@pytest.mark.parametrize(("content", "message"), BROKEN, ids=map(str, range(len(BROKEN))))
def test_hostile_pickles_are_refused(path, write, content, message):
    write(path, content)
    assert len(check_refused(lambda: read_state_dict(path), path, message)) < 1500


def test_old_files_without_their_storages_are_refused(path):
    """PyTorch does not fill storages without values, and trusts the sizes in the file."""
    for keys, sizes in (((), ()), (("0",), ()), (("1",), (6,)), (("0",), (HUGE,)), (("0",), (5,))):
        old(path, pickled(tensor()), keys, sizes)
        check_refused(lambda: read_state_dict(path), path, "not a readable state dict")
    old(path, pickled(tensor()))
    assert list(read_state_dict(path)) == ["t0"]


def add_again(path):
    """Add a second member with the name of the pickle."""
    with warnings.catch_warnings(), zipfile.ZipFile(path, "a") as file:
        warnings.simplefilter("ignore")
        file.writestr("archive/data.pkl", BOMB)


def claim(name, offset, size):
    """Change a size of a member in the directory at the end, which `zipfile` trusts."""

    def change(path):
        content = bytearray(path.read_bytes())
        start = content.rindex(name) - 46  # The entry of a member begins before its name.
        content[start + offset : start + offset + 4] = struct.pack("<I", size)
        path.write_bytes(content)

    return change


def start_of_old(sign):
    """Change the magic number or the version of a file of the old format."""
    return lambda path: path.write_bytes(old(path, ONE).read_bytes().replace(sign, b"\1\1"))


ONE = pickled(tensor())
FOREIGN = [
    (lambda path: archive(path, ONE, byteorder=b"x"), "byteorder"),
    (lambda path: write_zip(path, read_zip(path), zipfile.ZIP_DEFLATED), "are compressed"),
    (lambda path: write_zip(path, {**read_zip(path), "other/data.pkl": ONE}), "2 members"),
    (lambda path: write_zip(path, {"../archive/data.pkl": ONE}), "0 members"),
    # PyTorch would read a member `DATA.PKL` as `data.pkl`.
    (lambda path: archive(path, BOMB, **{"data.pkl": None, "DATA.PKL": DEEP}), "0 members"),
    (lambda path: archive(path, START + text("a" * LARGEST_PICKLE)), "more than 262,144 bytes"),
    (add_again, "two of its members have the same name"),
    (lambda path: write_zip(path, dict.fromkeys(map(str, range(10_001)), b"")), "10,001 members"),
    *(
        (claim(name, *change), "")
        for name in (b"archive/data.pkl", b"archive/data/0")
        for change in ((24, 2**32 - 2), (24, 3), (20, 3))
    ),
    (start_of_old(b"\xfc\x9c"), "the magic number or the version is wrong"),
    (start_of_old(b"\xe9\x03"), "the magic number or the version is wrong"),
    (lambda path: path.write_bytes(pickle.dumps(OrderedDict(a=1), 4)), ""),
]


@pytest.mark.parametrize(("change", "message"), FOREIGN, ids=map(str, range(len(FOREIGN))))
def test_files_that_pytorch_does_not_write_are_refused(path, change, message):
    archive(path, ONE)
    change(path)
    check_refused(lambda: read_state_dict(path), path, message)


def test_a_pickle_with_a_name_in_capitals_is_not_read(path):
    archive(path, ONE, **{"DATA.PKL": BOMB})
    assert list(read_state_dict(path)) == ["t0"]


def test_archives_with_zip64_are_read(path):
    """PyTorch writes sizes in 64 bits if a file is large."""
    members = read_zip(archive(path, ONE))
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members.items():
            with file.open(name, "w", force_zip64=True) as member:
                member.write(data)
    assert read_state_dict(path).read("t0")[1, 2] == 5


def test_tensors_that_share_a_storage_share_its_memory(path):
    """A small file may name one storage a thousand times. Copies in float32 would take
    gigabytes."""
    shared = torch.zeros(1000, dtype=torch.float16)
    torch.save({f"tensor {i}": shared.view(10, 100) for i in range(50)}, path)
    tensors = read_state_dict(path)
    assert len(tensors) == 50
    assert all(np.shares_memory(tensors["tensor 0"], tensor) for tensor in tensors.values())
    assert tensors.read("tensor 7").dtype == "float32"


def test_the_items_of_a_dict_are_copied_once(path):
    """A few bytes can call `OrderedDict` with the same list again."""
    items = b"](" + text("a") + tensor() + b"\x86e\x85q\x01"
    first = b"\x80\x02ccollections\nOrderedDict\nq\x00" + items + b"R"
    for content, names in ((first + b".", ["a"]), (first + b"h\x00h\x01R.", [])):
        archive(path, content)
        assert list(read_state_dict(path)) == names


def test_reading_needs_no_pytorch(path, monkeypatch):
    torch.save({"a": torch.ones(2)}, path)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert read_state_dict(path).read("a").tolist() == [1, 1]


def test_a_lack_of_memory_is_no_error_of_the_file(path, monkeypatch):
    def full(*_):
        raise MemoryError

    archive(path, ONE)
    monkeypatch.setattr(np, "frombuffer", full)
    with pytest.raises(MemoryError):
        read_state_dict(path)
