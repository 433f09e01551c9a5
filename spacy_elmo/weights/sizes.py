"""Sizes of a biLM in the JSON files of other programs.

A format lists the key path of each size once. Both `read_sizes` and `write_sizes` use this list, so
reading and writing always agree.
"""

from collections.abc import Mapping
from functools import reduce
from operator import getitem
from typing import Any

from ..model.config import NO_CHARACTERS, BiLMConfig

Places = dict[str, tuple[str, ...]]


def under(section: str, *names: str) -> Places:
    """Return the key path `(section, NAME)` of each size. NAME is the name in `BiLMConfig`."""
    return {name: (section, name) for name in names}


# Key paths in the options.json of bilm-tf and AllenNLP.
_LSTM = {
    "lstm_dim": ("lstm", "dim"),
    **under("lstm", "projection_dim", "n_layers", "cell_clip", "proj_clip", "use_skip_connections"),
}
_CHARACTERS = {
    "char_embed_dim": ("char_cnn", "embedding", "dim"),
    **under("char_cnn", "filters", "n_highway", "activation", "max_characters_per_token"),
}


def read_sizes(content: Any, places: Places, **defaults: Any) -> dict[str, Any]:
    """Read sizes from the content of a JSON file, at the key paths `places`.

    defaults (Any): Values of sizes that may be missing in the file.
    RETURNS (Dict[str, Any]): Names as in `BiLMConfig`. Values are not checked.
    RAISES (ValueError): A key is missing.
    """
    sizes = defaults
    for name, path in places.items():
        try:
            sizes[name] = reduce(getitem, path, content)
        except (KeyError, TypeError):
            if name not in defaults:
                raise ValueError(
                    f"'{'.'.join(path)}' is missing. Use the file that belongs to these weights."
                ) from None
    return sizes


def write_sizes(content: dict[str, Any], config: BiLMConfig, places: Places) -> None:
    """Add the sizes of a model to the content of a JSON file, at the key paths `places`."""
    sizes = config.all_sizes()
    for name, (*parents, key) in places.items():
        section = content
        for parent in parents:
            section = section.setdefault(parent, {})
        section[key] = sizes[name]


def check_representable(file: str, lacks: dict[str, bool]) -> None:
    """Raise an error if a model has properties that a format cannot store.

    lacks (Dict[str, bool]): Properties that the format cannot store, and whether the model has
        each.
    RAISES (ValueError): The model has one of these properties.
    """
    lacking = ", ".join(name for name, is_so in lacks.items() if is_so)
    if lacking:
        raise ValueError(
            f"{file} cannot store {lacking}. Convert to NAME.safetensors or a pipeline."
        )


def from_options(options: Any, *, n_words: int = 0, bidirectional: bool = True) -> BiLMConfig:
    """Make a config from the `options.json` of bilm-tf or AllenNLP. Ignore unknown keys.

    n_words (int): Number of words with an embedding, which the options do not contain. Required for
        a model without characters.
    RAISES (ValueError): A key is missing, or its value is impossible.
    """
    if not isinstance(options, Mapping) or "lstm" not in options:
        raise ValueError("'lstm' is missing. Use the options.json of an ELMo model.")
    has_characters = "char_cnn" in options
    if not has_characters and not n_words:
        raise ValueError(
            "'char_cnn' is missing, so the model reads word ids. Give its vocabulary, and the "
            "file with its dataset 'embedding'."
        )
    # Keys without a default here are required.
    clips = {"cell_clip": None, "proj_clip": None}
    sizes = read_sizes(options, _LSTM, n_layers=1, use_skip_connections=False, **clips)
    if has_characters:
        sizes.update(read_sizes(options, _CHARACTERS, n_highway=0, activation="relu"))
    else:
        sizes.update(NO_CHARACTERS)
    if n_words:
        sizes.update(n_words=n_words, word_embed_dim=sizes["projection_dim"])
    return BiLMConfig(**sizes, bidirectional=bidirectional)


def to_options(config: BiLMConfig) -> dict[str, Any]:
    """Return the content of an `options.json` for bilm-tf and AllenNLP.

    `n_characters` is 262, as AllenNLP expects.

    RAISES (ValueError): The format cannot store the model, for example the token encoder of
        ELMoForManyLangs, highways between LSTMs, joined directions, or word vectors in addition
        to characters.
    """
    lacks = {
        f"the token encoder '{config.token_encoder}'": config.token_encoder != "bilm-tf",
        "connections = 'highway'": config.connections == "highway",
        "joined_directions = true": config.joined_directions,
        "square_projection = true": config.square_projection,
        "sentence_marks = false": not config.sentence_marks,
        "word vectors in addition to characters": config.n_words > 0 and config.n_characters > 0,
    }
    check_representable("an options.json", lacks)
    options: dict[str, Any] = {"lstm": {}}
    if config.n_characters:
        options["char_cnn"] = {"n_characters": config.n_characters}
    if not config.bidirectional:
        options["bidirectional"] = False
    write_sizes(options, config, {**_LSTM, **(_CHARACTERS if config.n_characters else {})})
    return options
