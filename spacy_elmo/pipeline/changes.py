"""Saving of settings that were changed after a pipe was made.

spaCy writes the config that a pipe was made from. `to_disk` writes a changed setting into
`config.cfg` beside the pipe's folder, so that the file shows the active value, and overrides of
`spacy.load` still win. `to_bytes` has no such file, so changes go into the pipe's own bytes.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from spacy.util import load_config

from ..embedding.settings import ElmoSettings
from ..files import atomic_write
from ..registry import registry
from ..weights.attribution import names_pipe

CONFIG_FILE = "config.cfg"
BLOCKS = ("segmenter", "features")  # settings made by a registered function


def changed_config(made: ElmoSettings, now: ElmoSettings) -> dict[str, Any]:
    """Find the settings that were changed.

    made (ElmoSettings): The settings that the pipe was made with.
    now (ElmoSettings): Its settings.
    RETURNS (dict): The changed ones, in the form of a config.
    RAISES (ValueError): A segmenter has no method `config`.
    """
    names = [one.name for one in fields(now) if getattr(made, one.name) != getattr(now, one.name)]
    return {name: now.config_of(name) for name in names}


def write_changes(
    changes: Mapping[str, Any], sizes: Mapping[str, Any], folder: Path, pipe: str
) -> None:
    """Write changed settings, and the sizes of the weights, into the config of a pipeline.

    changes (Mapping[str, Any]): The result of `changed_config`.
    sizes (Mapping[str, Any]): Sizes of the weights by their names in the block `model`; empty if
        no weights were read.
    folder (Path): The pipeline's folder. If its meta.json does not name the pipe, nothing is
        written.
    pipe (str): Name of the pipe.
    """
    file = folder / CONFIG_FILE
    if not (changes or sizes) or not file.is_file() or not names_pipe(folder, pipe):
        return
    config = load_config(file, interpolate=False)
    block = config.get("components", {}).get(pipe)
    if block is None:
        return
    model = block.get("model")
    if not isinstance(model, dict):  # a variable of another section
        model = {}
    # The config names default sizes if the user gave weights only. Variables stay.
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
    """Apply changes, in the form of a config, to settings."""
    blocks = {name: value for name, value in changes.items() if name in BLOCKS and value}
    return replace(settings, **{**changes, **registry.resolve(blocks)})
