"""Functions that save changes to the settings of a pipe.

spaCy saves only the config from which it made the pipe. So `to_disk` writes changed settings into
the pipeline's `config.cfg`. The file then shows the active values, and overrides in `spacy.load`
still work. `to_bytes` writes no `config.cfg`, so the changes are part of the pipe's own bytes.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from spacy.util import load_config

from ..embedding.settings import ElmoSettings
from ..files import atomic_write
from ..registry import registry

CONFIG_FILE = "config.cfg"
BLOCKS = ("segmenter", "features")  # Settings whose value is made by a registered function.


def changed_config(made: ElmoSettings, now: ElmoSettings) -> dict[str, Any]:
    """Find the settings that changed after the pipe was made.

    made (ElmoSettings): The settings when the pipe was made.
    now (ElmoSettings): The current settings of the pipe.
    RETURNS (dict): The changed settings, as values for a config.
    RAISES (ValueError): A segmenter has no method `config`.
    """
    names = [one.name for one in fields(now) if getattr(made, one.name) != getattr(now, one.name)]
    return {name: now.config_of(name) for name in names}


def write_changes(
    changes: Mapping[str, Any], sizes: Mapping[str, Any], folder: Path, pipe: str
) -> None:
    """Write changed settings and the sizes of the weights into a pipeline's `config.cfg`.

    changes (Mapping[str, Any]): The result of `changed_config`.
    sizes (Mapping[str, Any]): Sizes of the weights. The keys are names of settings in the block
        `model`. Empty if no weights were read.
    folder (Path): The pipeline's folder.
    pipe (str): Name of the pipe.
    """
    file = folder / CONFIG_FILE
    if not (changes or sizes) or not file.is_file():
        return
    config = load_config(file, interpolate=False)
    block = config.get("components", {}).get(pipe)
    if block is None:
        return
    model = block.get("model")
    if not isinstance(model, dict):  # The value is a variable, such as ${model}.
        model = {}
    # If the user gave only weights, the config contains the default sizes. Replace them with the
    # sizes of the weights, except where the config has a variable.
    followed = {
        name: sizes[name]
        for name in sizes.keys() & model
        if model[name] != sizes[name] and "${" not in str(model[name])
    }
    if changes or followed:
        block.update(changes)
        model.update(followed)
        atomic_write(file, config.to_str())


def apply_changes(settings: ElmoSettings, changes: Mapping[str, Any]) -> ElmoSettings:
    """Return a copy of the settings with the changes that `changed_config` found."""
    blocks = {name: value for name, value in changes.items() if name in BLOCKS and value}
    return replace(settings, **{**changes, **registry.resolve(blocks)})
