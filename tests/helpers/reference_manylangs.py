"""Arithmetic of ELMoForManyLangs in plain numpy float64: slow, loop by loop, independent.

The code follows the format's description; the tests compare the package with it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from helpers.reference import convolve, highway, run_lstm

Array = NDArray[np.float64]
Sizes = dict[str, Any]
Tensors = dict[str, NDArray[np.float32]]

CHARACTERS = ["<oov>", *"abcdeThkstu.é漢😀", "\u3000", "<bos>", "<eos>", "<bow>", "<eow>", "<pad>"]
WORDS = ["<oov>", "<bos>", "<eos>", "<pad>", "The", "the", "cat", ".", "t" * 10, "漢"]


def sizes_of(**changes: Any) -> Sizes:
    """The content of an architecture file, with keys of either section replaced."""
    encoder = {"dim": 20, "projection_dim": 6, "n_layers": 2, "cell_clip": 3, "proj_clip": 3}
    tokens = {"activation": "relu", "filters": [[1, 4], [2, 6], [3, 5]], "n_highway": 2}
    tokens |= {"word_dim": 5, "char_dim": 4, "max_characters_per_token": 12}
    for key, value in changes.items():
        section = encoder if key in encoder else tokens
        assert key in section
        section[key] = value
    return {"encoder": {"name": "elmo", **encoder}, "token_embedder": {"name": "cnn", **tokens}}


def random_tensors(sizes: Sizes, seed: int = 0) -> tuple[Tensors, Tensors]:
    """Random weights of token embedder and encoder; clips of about 3 do act on them."""
    rng = np.random.default_rng(seed)
    tokens, encoder = sizes["token_embedder"], sizes["encoder"]
    dim, width = encoder["dim"], encoder["projection_dim"]
    word_dim, char_dim = tokens["word_dim"], tokens["char_dim"]
    n_filters = sum(count for _, count in tokens["filters"]) if char_dim else 0

    def normal(shape: tuple[int, ...], scale: float) -> NDArray[np.float32]:
        return (scale * rng.standard_normal(shape)).astype(np.float32)

    embedder: Tensors = {}
    if word_dim:
        embedder["word_emb_layer.embedding.weight"] = normal((len(WORDS), word_dim), 1.0)
    if char_dim:
        embedder["char_emb_layer.embedding.weight"] = normal((len(CHARACTERS), char_dim), 1.0)
        for i, (size, count) in enumerate(tokens["filters"]):
            shape = (count, char_dim, size)
            embedder[f"convolutions.{i}.weight"] = normal(shape, (size * char_dim) ** -0.5)
            embedder[f"convolutions.{i}.bias"] = normal((count,), 0.5)
        for k in range(tokens["n_highway"]):
            name, shape = f"highways._layers.{k}", (2 * n_filters, n_filters)
            embedder[f"{name}.weight"] = normal(shape, n_filters**-0.5)
            embedder[f"{name}.bias"] = normal((2 * n_filters,), 0.5)
    embedder["projection.weight"] = normal((width, word_dim + n_filters), 0.5)
    embedder["projection.bias"] = normal((width,), 0.5)
    stacks: Tensors = {}
    for direction in ("forward", "backward"):
        for layer in range(encoder["n_layers"]):
            name = f"{direction}_layer_{layer}"
            stacks[f"{name}.input_linearity.weight"] = normal((4 * dim, width), 0.7 * width**-0.5)
            stacks[f"{name}.state_linearity.weight"] = normal((4 * dim, width), 0.3 * width**-0.5)
            stacks[f"{name}.state_linearity.bias"] = normal((4 * dim,), 1.0)
            stacks[f"{name}.state_projection.weight"] = normal((width, dim), 4.0 * dim**-0.5)
    return embedder, stacks


def write_folder(
    folder: Path, sizes: Sizes, tensors: tuple[Tensors, Tensors], *, old_pickles: bool = False
) -> Path:
    """Write a folder as ELMoForManyLangs' training does, with somebody's absolute path in it."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"seed": 1, "config_path": "/home/somebody/models/sizes.json", "max_epoch": 10}
    (folder / "config.json").write_text(json.dumps(config), "utf8")
    (folder / "sizes.json").write_text(json.dumps(sizes), "utf8")
    for name, part in zip(("token_embedder.pkl", "encoder.pkl"), tensors):
        state = {key: torch.from_numpy(values.copy()) for key, values in part.items()}
        torch.save(state, folder / name, _use_new_zipfile_serialization=not old_pickles)
    for name, dim, entries in (("word", "word_dim", WORDS), ("char", "char_dim", CHARACTERS)):
        if sizes["token_embedder"][dim]:
            lines = [f"{entry}\t{i}\n" for i, entry in enumerate(entries)]
            (folder / f"{name}.dic").write_text("".join(lines[::-1]), "utf8", newline="\n")
    return folder


def write_random(folder: Path, seed: int = 0, *, old_pickles: bool = False, **changes: Any) -> Path:
    """Write a folder with random weights, keys of its sizes replaced."""
    sizes = sizes_of(**changes)
    return write_folder(folder, sizes, random_tensors(sizes, seed), old_pickles=old_pickles)


def character_ids(token: str, max_characters: int) -> list[int]:
    """The swapped marks, code points cut in front, `<pad>` up to the end."""
    ids = {character: i for i, character in enumerate(CHARACTERS)}
    if token in ("<bos>", "<eos>"):
        inner = [ids[token]]
    else:
        inner = [ids.get(c, ids["<oov>"]) for c in token[: max_characters - 2]]
    row = [ids["<eow>"], *inner, ids["<bow>"]]
    return row + [ids["<pad>"]] * (max_characters - len(row))


def token_vector(sizes: Sizes, embedder: Tensors, token: str) -> Array:
    """`[word ; highways(convolutions)]`, projected."""
    tokens = sizes["token_embedder"]
    data = {name: values.astype(np.float64) for name, values in embedder.items()}
    most = tokens["max_characters_per_token"]
    parts = []
    if tokens["word_dim"]:
        cut = token if token in ("<bos>", "<eos>") else token[: most - 2]
        row = WORDS.index(cut) if cut in WORDS else WORDS.index("<oov>")
        parts.append(data["word_emb_layer.embedding.weight"][row])
    if tokens["char_dim"]:
        characters = data["char_emb_layer.embedding.weight"][character_ids(token, most)]
        pooled = []
        for i in range(len(tokens["filters"])):
            weight = data[f"convolutions.{i}.weight"].transpose(2, 1, 0)
            pooled.append(convolve(characters, weight, data[f"convolutions.{i}.bias"]))
        x = np.concatenate(pooled)
        x = np.tanh(x) if tokens["activation"] == "tanh" else np.maximum(x, 0.0)
        for k in range(tokens["n_highway"]):
            name = f"highways._layers.{k}"
            first, second = np.split(data[f"{name}.weight"] @ x + data[f"{name}.bias"], 2)
            x = highway(x, -second, first)  # the gate of what is carried
        parts.append(x)
    return data["projection.weight"] @ np.concatenate(parts) + data["projection.bias"]


def _run_layer(sizes: Sizes, stacks: Tensors, name: str, inputs: list[Array]) -> list[Array]:
    """One LSTM layer from a zero state: gates i, f, j, o; a clip of 0 is none."""
    encoder = sizes["encoder"]
    parts = ("input_linearity.weight", "state_linearity.weight", "state_linearity.bias")
    from_input, from_state, bias = (stacks[f"{name}.{part}"].astype("float64") for part in parts)
    order = [0, 2, 1, 3]
    weight = np.hstack([from_input, from_state]).T
    weight = np.hstack([np.split(weight, 4, axis=1)[i] for i in order])
    bias = np.hstack([np.split(bias, 4)[i] for i in order])
    projection = stacks.get(f"{name}.state_projection.weight")
    projection = None if projection is None else projection.T.astype("float64")
    clips = encoder["cell_clip"] or None, encoder["proj_clip"] or None
    zero = np.zeros(encoder["dim"]), np.zeros(encoder["projection_dim"])
    return run_lstm(weight, bias, projection, clips, inputs, zero)[0]


def layers(sizes, tensors, sentences, keep_marks=False) -> list[Array]:
    """(L + 1, n_tokens, 2P) a sentence, each from a zero state, marks fed and dropped. The
    skip connection is there from layer 1 (counted from 0) on.

    tensors (Tuple[Tensors, Tensors]): Of token embedder and encoder.
    sentences (List[List[str]]): The tokens of each.
    """
    embedder, stacks = tensors
    results = []
    for sentence in sentences:
        vectors = [token_vector(sizes, embedder, t) for t in ["<bos>", *sentence, "<eos>"]]
        halves = []
        for direction in ("forward", "backward"):
            step = 1 if direction == "forward" else -1
            x, stack = vectors[::step], [vectors]
            for layer in range(sizes["encoder"]["n_layers"]):
                out = _run_layer(sizes, stacks, f"{direction}_layer_{layer}", x)
                x = [a + b for a, b in zip(out, x)] if layer else out
                stack.append(x[::step])
            halves.append(np.array(stack))
        whole = np.concatenate(halves, axis=-1)
        results.append(whole if keep_marks else whole[:, 1:-1])
    return results
