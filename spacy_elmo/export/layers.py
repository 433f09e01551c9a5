"""Choice of the exported vectors: all layers, one layer, or a mix."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from spacy.language import Language
from thinc.api import Model

from ..embedding.vectors import mix_layers
from ..layers.scalar_mix import mix_weights, mixes_of
from ..pipeline.load import elmo_pipe

VECTOR = "vector"  # The mix of the pipe `elmo`.
LAYERS = VECTOR, "all", "top", "average"
MIX = "mix:"

Choose = Callable[[np.ndarray], np.ndarray]


def choose_layers(name: str, nlp: Language) -> tuple[Choose, dict[str, Any]]:
    """Return the function that selects or mixes layers.

    name (str): "vector" (the pipe's `mix`), "all", "top", "average", the number of a layer,
        or "mix:PIPE" (the mix that a component learned). If a component has several mixes:
        "mix:PIPE:0", "mix:PIPE:1" and so on.
    nlp (Language): The pipeline.
    RETURNS (Tuple[Callable, dict]): The function, and a description of the choice as a JSON object.
        The function maps `(L + 1, n_tokens, 2P)` to the same shape or to `(n_tokens, 2P)`.
    RAISES (ValueError): The name is unknown.
    """
    if name == "all":
        return lambda layers: layers, {"layers": name}
    pipe = elmo_pipe(nlp)
    if name == VECTOR:
        own = pipe.settings.mix
        return partial(mix_layers, mix=own), {"layers": str(own) if isinstance(own, int) else own}
    n_layers = pipe.bilm.config.n_layers
    if name in LAYERS or (name.isdecimal() and int(name) <= n_layers):
        return partial(mix_layers, mix=name), {"layers": name}
    if not name.startswith(MIX):
        raise ValueError(
            f"layers must be {', '.join(LAYERS)}, a number from 0 to {n_layers} or {MIX}PIPE, "
            f"got '{name}'"
        )
    mix = _find_mix(name.removeprefix(MIX), nlp)
    gamma = mix.get_param("gamma").item()
    values = [float(weight) for weight in mix_weights(mix)]
    learned = {"weights": values, "gamma": gamma, "layer_norm": mix.attrs["layer_norm"]}
    return partial(_mixed, mix), {"layers": name, "mix": learned}


def _mixed(mix: Model, layers: np.ndarray) -> np.ndarray:
    return mix.ops.to_numpy(mix.predict([mix.ops.asarray3f(layers)])[0])


def _find_mix(given: str, nlp: Language) -> Model:
    """Find the mix that `PIPE` or `PIPE:NUMBER` names."""
    choices: dict[str, Model] = {}
    for name, pipe in nlp.components:
        found = mixes_of(getattr(pipe, "model", None))
        choices |= {f"{name}:{number}": mix for number, mix in enumerate(found)}
        if len(found) == 1:
            choices[name] = choices[f"{name}:0"]
    if given not in choices:
        names = ", ".join(f"{MIX}{name}" for name in choices)
        advice = f"Give one of {names}" if choices else "No component has a mix"
        raise ValueError(f"no mix of ELMo layers is named '{given}'. {advice}.")
    return choices[given]
