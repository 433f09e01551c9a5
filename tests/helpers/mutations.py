"""Mutations of the files of a model, for `fuzz.py`."""

import json
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

ODD_VALUES: list[Any] = [
    *(0, -1, 1, 2, 7, 255, 2**16, 2**20, 2**31, 2**63, 10**30, 10**400, 0.5, -0.5, 1e308),
    *("", "x", "\ud83d", "a" * 10_000, None, True, False, [], {}, [[]], [1, 2], [[1, 2**20]]),
]


class Mutation(NamedTuple):
    """Change of a model's files.

    description (str): In words.
    must_raise (bool): Whether no reader may take them for a model.
    """

    description: str
    must_raise: bool


# Bytes


def flip(data: bytearray, rng: Random) -> Mutation:
    start, end = rng.choice([(0, len(data)), (0, 200), (0, 4096), (len(data) - 4096, len(data))])
    n = rng.choice([1, 1, 2, 4, 16, 64])
    for _ in range(n):
        place = min(max(0, rng.randrange(start, max(start + 1, end))), len(data) - 1)
        data[place] ^= rng.choice([255, rng.randrange(256), 1 << rng.randrange(8)])
    return Mutation(f"{n} bytes flipped", False)


def truncate(data: bytearray, rng: Random) -> Mutation:
    keep = rng.choice([0, 1, 8, 100, len(data) - 1, rng.randrange(len(data))])
    del data[keep:]
    return Mutation(f"cut to {keep} bytes", True)


def blow_up(data: bytearray, rng: Random) -> Mutation:
    """A number is made huge, in either byte order."""
    size = rng.choice([4, 8])
    place = rng.randrange(max(1, min(len(data), rng.choice([100, 4096, len(data)])) - size))
    value = rng.choice([2**31 - 1, 2**31, 2**32 - 1, 2**30, 2**24])
    value <<= rng.choice([0, 8 * size - 32])
    order = rng.choice(["little", "big"])
    data[place : place + size] = value.to_bytes(8, order)[-size if order == "big" else 0 :][:size]
    return Mutation(f"{size} bytes at {place} made huge", False)


def shuffle_blocks(data: bytearray, rng: Random) -> Mutation:
    size = rng.choice([16, 512, 4096])
    one, two = (rng.randrange(max(1, len(data) - size)) for _ in range(2))
    data[one : one + size] = data[two : two + size]
    return Mutation(f"{size} bytes from {two} copied to {one}", False)


def change_bytes(path: Path, rng: Random) -> Mutation:
    data = bytearray(path.read_bytes())
    before = bytes(data)
    what = rng.choice([flip, flip, flip, truncate, blow_up, shuffle_blocks])(data, rng)
    path.write_bytes(data)
    is_text = path.suffix in (".json", ".txt", ".dic")  # Their last line end may go.
    must = what.must_raise and not is_text and bytes(data) != before
    return Mutation(f"{path.name}: {what.description}", must)


def split_safetensors(path: Path) -> tuple[dict[str, Any], bytes]:
    """Return the header, and all bytes after it."""
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:end]), content[end:]


def join_safetensors(path: Path, header: dict[str, Any], data: bytes) -> None:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


# JSON and text


def change_json(path: Path, rng: Random) -> Mutation:
    content = json.loads(path.read_text("utf8"))
    what = change_value(content, rng)
    path.write_text(json.dumps(content), "utf8")
    return Mutation(f"{path.name}: {what}", False)


def change_value(content: dict[str, Any], rng: Random) -> str:
    """A value anywhere in it becomes another one, or goes."""
    places = [(content, key) for key in content]
    for holder, key in places:
        inner = holder[key]
        if isinstance(inner, dict | list):
            keys = inner if isinstance(inner, dict) else range(len(inner))
            places += [(inner, key) for key in keys]
    holder, key = rng.choice(places)
    if rng.random() < 0.2:
        del holder[key]
        return f"{key!r} removed"
    holder[key] = rng.choice(ODD_VALUES)
    return f"{key!r} is {str(holder[key])[:30]}"


def change_lines(path: Path, rng: Random) -> Mutation:
    lines = path.read_text("utf8").split("\n")
    number = rng.randrange(len(lines) - 1)
    odd = ["", "\t", "x", "x\t", "\t1", "a\t-1", "a\tb\tc", f"a\t{10**6}"]
    odd += ["a" * 10**6, "a\t" + "9" * 10**5]
    action = rng.choice(["remove", "double", "replace"])
    if action == "remove":
        del lines[number]
    elif action == "double":
        lines.insert(number, lines[number])
    else:
        lines[number] = rng.choice(odd)
    path.write_text("\n".join(lines), "utf8")
    return Mutation(f"{path.name}: {action} line {number}", action != "replace")
