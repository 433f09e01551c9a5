"""The arithmetic of ELMo in plain numpy float64: slow, loop by loop, independent of the package.

It follows the file layout and run-time behaviour of bilm-tf and AllenNLP; the tests compare the
package with it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Options = dict[str, Any]
Datasets = dict[str, NDArray[np.float32]]
Cell = tuple[Array, Array]  # (clipped memory cell, clipped hidden vector)
State = list[list[list[Cell]]]  # state[row][direction][layer]
Words = list[str] | None

BOS, EOS, BOW, EOW, PAD = 256, 257, 258, 259, 260
MARKS = {"<S>": BOS, "</S>": EOS}


def _cell_name(direction: int, layer: int) -> str:
    return f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"


def _n_layers(options: Options) -> int:
    return int(options["lstm"].get("n_layers", 1))


def _n_directions(options: Options) -> int:
    return 1 if options.get("bidirectional") is False else 2


def random_datasets(options: Options, seed: int = 0, n_words: int = 0) -> Datasets:
    """Random weights under bilm-tf's dataset names and shapes; clips of about 3 do act on them.

    Without `char_cnn` in the options, `n_words` words have an embedding in place of characters.
    """
    rng = np.random.default_rng(seed)
    dim, projection_dim = options["lstm"]["dim"], options["lstm"]["projection_dim"]
    assert projection_dim <= dim, "the layout has no projection for lstm.projection_dim > lstm.dim"

    def normal(shape: tuple[int, ...], scale: float) -> NDArray[np.float32]:
        return (scale * rng.standard_normal(shape)).astype(np.float32)

    data: Datasets = {}
    if "char_cnn" in options:
        char_dim, filters = options["char_cnn"]["embedding"]["dim"], options["char_cnn"]["filters"]
        n_filters = sum(count for _, count in filters)
        data["char_embed"] = rng.uniform(-1, 1, (261, char_dim)).astype(np.float32)
        for i, (width, count) in enumerate(filters):
            data[f"CNN/W_cnn_{i}"] = normal((1, width, char_dim, count), (width * char_dim) ** -0.5)
            data[f"CNN/b_cnn_{i}"] = normal((count,), 0.5)
        for k in range(options["char_cnn"].get("n_highway", 0)):
            for part in ("carry", "transform"):
                data[f"CNN_high_{k}/W_{part}"] = normal((n_filters, n_filters), n_filters**-0.5)
                data[f"CNN_high_{k}/b_{part}"] = normal((n_filters,), 0.5)
        if n_filters != projection_dim:
            data["CNN_proj/W_proj"] = normal((n_filters, projection_dim), n_filters**-0.5)
            data["CNN_proj/b_proj"] = normal((projection_dim,), 0.5)
    else:
        data["embedding"] = normal((n_words, projection_dim), 1.0)
    for direction in range(_n_directions(options)):
        for layer in range(_n_layers(options)):
            name = _cell_name(direction, layer)
            weight = normal((2 * projection_dim, 4 * dim), 0.7 * projection_dim**-0.5)
            weight[projection_dim:] *= np.float32(0.4)  # keeps float32 rounding from growing
            data[f"{name}/W_0"], data[f"{name}/B"] = weight, normal((4 * dim,), 1.0)
            if projection_dim < dim:
                data[f"{name}/W_P_0"] = normal((dim, projection_dim), 4.0 * dim**-0.5)
    return data


def write_hdf5(folder: Path, options: Options, datasets: Datasets, words: Words = None) -> Path:
    """Write ``options.json`` and ``weights.hdf5`` as bilm-tf does, and words as its
    ``vocab.txt``; return the path of the weights."""
    folder.mkdir(parents=True, exist_ok=True)
    if words is not None:
        (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf8")
    (folder / "options.json").write_text(json.dumps(options), encoding="utf8")
    path = folder / "weights.hdf5"
    with h5py.File(path, "w") as file:
        for name, values in datasets.items():
            file.create_dataset(name, data=values, dtype="float32")
    return path


def write_random(folder: Path, options: Options, seed: int = 0, words: Words = None) -> Path:
    """Write random weights, of a model of words if there are words; return their path."""
    return write_hdf5(folder, options, random_datasets(options, seed, len(words or ())), words)


def read_hdf5(path: Path) -> dict[str, NDArray[Any]]:
    """Read all datasets of a file."""
    found: dict[str, NDArray[Any]] = {}

    def note(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            found[name] = item[()]

    with h5py.File(path) as file:
        file.visititems(note)
    return found


def character_ids(token: str, max_characters: int) -> list[int]:
    """``[BOW] bytes [EOW] PAD...``, all + 1; the bytes are cut, even inside a character.

    The sentence marks, also where they stand in the text, have BOS or EOS for their bytes.
    """
    if token in MARKS:
        inner = [MARKS[token]]
    else:
        inner = list(token.encode("utf8", errors="ignore"))[: max_characters - 2]
    ids = [BOW, *inner, EOW] + [PAD] * (max_characters - 2 - len(inner))
    return [number + 1 for number in ids]


def _exact(values: NDArray[Any]) -> Array:
    # Large weights are passed in float64: to convert them at every step takes most of the time.
    return values.astype(np.float64, copy=False)


def _sigmoid(x: Array) -> Array:
    return 0.5 * (1.0 + np.tanh(0.5 * x))


def _relu(x: Array) -> Array:
    return np.maximum(x, 0.0)


def _clip(x: Array, limit: float | None) -> Array:
    return x if limit is None else np.clip(x, -limit, limit)


def token_vector(options: Options, datasets: Datasets, token: str, words: Words = None) -> Array:
    """Characters, filters over all positions (PAD too), max, activation, highways, projection.

    Known `words` have their row of `embedding`. Without characters, other words have the row of
    `<UNK>`.
    """
    if words is not None and (token in words or "char_cnn" not in options):
        return _exact(datasets["embedding"][words.index(token if token in words else "<UNK>")])
    cnn = options["char_cnn"]
    data = {k: _exact(v) for k, v in datasets.items() if k.startswith(("char", "CNN"))}
    activation = {"relu": _relu, "tanh": np.tanh}[cnn["activation"]]
    table = np.vstack([np.zeros((1, cnn["embedding"]["dim"])), data["char_embed"]])
    characters = table[character_ids(token, cnn["max_characters_per_token"])]
    parts = []
    for i in range(len(cnn["filters"])):
        found = convolve(characters, data[f"CNN/W_cnn_{i}"][0], data[f"CNN/b_cnn_{i}"])
        parts.append(activation(found))
    x = np.concatenate(parts)
    for k in range(cnn.get("n_highway", 0)):
        name = f"CNN_high_{k}"  # "carry" is misnamed: it gates the transformed branch
        gate = x @ data[f"{name}/W_carry"] + data[f"{name}/b_carry"]
        x = highway(x, gate, x @ data[f"{name}/W_transform"] + data[f"{name}/b_transform"])
    if len(x) != options["lstm"]["projection_dim"]:
        x = x @ data["CNN_proj/W_proj"] + data["CNN_proj/b_proj"]
    return x


def convolve(characters: Array, weight: Array, bias: Array) -> Array:
    """The largest value of each filter, over all positions. *Shapes:* of the weight
    (width, dc, n), of the bias (n,)"""
    width = len(weight)
    starts = range(len(characters) - width + 1)
    positions = [sum(characters[s + i] @ weight[i] for i in range(width)) for s in starts]
    return np.max(positions, axis=0) + bias


def highway(x: Array, gate: Array, branch: Array) -> Array:
    """The gate and the branch before their activations."""
    gate = _sigmoid(gate)
    return gate * _relu(branch) + (1.0 - gate) * x


def run_lstm(weight, bias, projection, clips, inputs, cell) -> tuple[list[Array], Cell]:
    """An LSTM in reading order: gates i, j, f, o, clips of cell and projection at every step.

    projection, clips: An array or None; two limits, or None for no limit.
    inputs (List[Array]): A vector each step.
    cell (Cell): From which it starts.
    RETURNS (Tuple[List[Array], Cell]): A vector each step, and the cell after the last.
    """
    outputs = []
    c, h = cell
    for x in inputs:
        i, j, f, o = np.split(np.concatenate([x, h]) @ weight + bias, 4)
        c = _clip(_sigmoid(f) * c + _sigmoid(i) * np.tanh(j), clips[0])
        h = _sigmoid(o) * np.tanh(c)
        if projection is not None:
            h = _clip(h @ projection, clips[1])
        outputs.append(h)
    return outputs, (c, h)


def _zero_cells(options: Options) -> list[Cell]:
    lstm = options["lstm"]
    return [(np.zeros(lstm["dim"]), np.zeros(lstm["projection_dim"]))] * _n_layers(options)


def _run_stack(options, datasets, direction, x, cells, gates=None):
    """Compute all layers of a direction, with a forget bias of 1."""
    lstm, stack, after = options["lstm"], [x], []
    for layer, cell in enumerate(cells):
        name = _cell_name(direction, layer)
        weight, bias = _exact(datasets[f"{name}/W_0"]), np.copy(_exact(datasets[f"{name}/B"]))
        bias[2 * lstm["dim"] : 3 * lstm["dim"]] += 1.0
        has_projection = lstm["projection_dim"] < lstm["dim"]
        projection = _exact(datasets[f"{name}/W_P_0"]) if has_projection else None
        clips = lstm.get("cell_clip"), lstm.get("proj_clip")
        out, cell = run_lstm(weight, bias, projection, clips, x, cell)
        if gates and layer >= 1:
            weight, bias = gates[direction][layer - 1]
            r = [1 / (1 + np.exp(-(weight @ vector + bias))) for vector in x]
            out = [r[t] * out[t] + (1 - r[t]) * x[t] for t in range(len(x))]
        elif lstm.get("use_skip_connections", False) and layer >= 1:
            out = [a + b for a, b in zip(out, x)]
        x = out
        stack.append(out)
        after.append(cell)
    return stack, after


def layers(options, datasets, sentences, state=None, words=None, gates=None, keep_marks=False):
    """(L + 1, n_tokens, 2P) a sentence, each run alone, and the state to carry to the next call.
    With `gates`, W and b by direction and layer, highways are in place of skip connections.

    The marks are fed and, unless they are kept, dropped. Layer 0 is the token vector
    twice. The skip connection is added from layer 1 (counted from 0) on, after clipping, and is
    no part of the state.

    sentences (List[List[str]]): The tokens of each.
    state (Optional[State]): A row a sentence; zeros if it is None.
    words (Words): As of `token_vector`.
    gates (Optional[List[List[Tuple[Array, Array]]]]): Of the layers from 1 on.
    RETURNS (Tuple[List[Array], State]): The layers and the state.
    """
    directions = range(_n_directions(options))
    if state is None:
        state = [[_zero_cells(options) for _ in directions] for _ in sentences]
    assert len(state) == len(sentences), "the state needs one row a sentence"
    results: list[Array] = []
    new_state: State = []
    for number, sentence in enumerate(sentences):
        marked = ["<S>", *sentence, "</S>"]
        vectors = [token_vector(options, datasets, token, words) for token in marked]
        halves: list[list[list[Array]]] = []  # halves[direction][layer][position], text order
        new_row: list[list[Cell]] = []
        for direction in directions:
            step, before = -1 if direction else 1, state[number][direction]
            stack, cells = _run_stack(options, datasets, direction, vectors[::step], before, gates)
            halves.append([layer[::step] for layer in stack])
            new_row.append(cells)
        whole = np.concatenate([np.array(h) for h in halves], axis=-1)
        results.append(whole if keep_marks else whole[:, 1:-1])
        new_state.append(new_row)
    return results, new_state


def random_softmax(options: Options, n_words: int, seed: int = 0) -> Datasets:
    """Return random `softmax/W` and `softmax/b` over `n_words` words."""
    rng = np.random.default_rng(seed)
    shape = (n_words, options["lstm"]["projection_dim"])
    weight, bias = rng.standard_normal(shape), rng.standard_normal(n_words)
    return {"softmax/W": weight.astype(np.float32), "softmax/b": bias.astype(np.float32)}


def log_probabilities(options, datasets, read, direction, cells=None, words=None):
    """Predict the next token after each token with the full softmax.

    Nothing is added to the tokens.

    read (List[str]): The tokens, in the direction's order.
    cells (Optional[List[Cell]]): The initial state; zeros if None.
    RETURNS (Tuple[Array, List[Cell]]): The log-probabilities, *Shape:* (n_tokens, V), and the cells
        to carry on.
    """
    vectors = [token_vector(options, datasets, token, words) for token in read]
    cells = _zero_cells(options) if cells is None else cells
    stack, after = _run_stack(options, datasets, direction, vectors, cells)
    logits = np.array(stack[-1]) @ datasets["softmax/W"].astype("float64").T + datasets["softmax/b"]
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)), after
