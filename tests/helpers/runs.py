"""Small pretraining runs that the tests share."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file
from thinc.api import Config

from spacy_elmo.pretraining.config import PretrainingConfig, check_config

from helpers.models import pretraining_config

# Of several processes, which import these helpers.
_PATHS = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
ENVIRONMENT["PYTHONPATH"] = os.pathsep.join(filter(None, _PATHS))

# Dropped inputs, zeroed states: what is drawn in a run must be drawn again.
RANDOM = {"dropout": 0.2, "state_reset": 0.3, "eval_frequency": 3}


def write_texts(folder) -> None:
    """`train.txt`, some hundred words, and `dev.txt`."""
    rng = np.random.default_rng(0)
    words = [*"abcdefgh", "naïve", "日本", ".", "the"]
    lines = [" ".join(rng.choice(words, size=rng.integers(2, 9))) for _ in range(40)]
    (folder / "train.txt").write_text("".join(line + "\n" for line in lines), "utf8")
    (folder / "dev.txt").write_text("the a b .\nc d unseen\nnaïve e f g h\n日本 .\n", "utf8")


def run_config(folder, *, seed: int = 0, init: Any = None, **training: Any) -> Config:
    """Return the config of a run on the texts of a folder, with settings `init` of
    `[pretraining]`."""
    texts = (str(folder / name) for name in ("train.txt", "dev.txt"))
    settings = pretraining_config(*texts, **training)
    return Config({**settings, "system": {"seed": seed}, "pretraining": init or {}})


def run_settings(folder, **changes: Any) -> PretrainingConfig:
    return check_config(run_config(folder, **changes))


def metrics(output) -> list[dict]:
    """The lines of `metrics.jsonl`, without the times."""
    lines = (output / "metrics.jsonl").read_text("utf8").splitlines()
    rows = [json.loads(line) for line in lines]
    for row in rows:
        for name in ("seconds", "elapsed", "tokens_per_second"):
            del row[name]
    return rows


def arrays(output, name: str = "model-last") -> dict[str, np.ndarray]:
    """The weights of a model on disk."""
    found = {}
    for file in ("elmo/model.safetensors", "softmax.safetensors"):
        weights = load_file(output / name / file)
        found.update({f"{file} {key}": value for key, value in weights.items()})
    return found


def assert_same_arrays(found, expected) -> None:
    """Bit by bit."""
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        other = found[name]
        assert (values.dtype, values.shape) == (other.dtype, other.shape), name
        assert values.tobytes() == other.tobytes(), name
