"""Sections of a page: senses, cosines of two sentences, neighbors, mixes, probes, robustness."""

from collections.abc import Sequence
from math import ceil, floor
from typing import Any, Optional

import numpy as np
from spacy.language import Language
from thinc.types import Floats3d

from ..analysis.corpora import describe_input, sentence_doc, unit_vectors
from ..analysis.neighbors import Neighbor
from ..analysis.occurrences import Drawn, occurrence_layers
from ..embedding.mix import mix_layers
from ..pipeline.elmo import Elmo
from ..pipeline.load import elmo_pipe
from .page import pack_fractions
from .senses import CONTEXT, senses_section


def make_senses(nlp: Language, drawn: Sequence[Drawn], **settings: Any) -> dict[str, Any]:
    """Compute the vectors of occurrences of words, and make the section with their maps.

    nlp (Language): A pipeline with a pipe `elmo`.
    drawn (Sequence[Drawn]): The occurrences of each word.
    **settings: Settings of `senses_section`.
    RETURNS (dict): The section, for `make_page`.
    """
    pipe = elmo_pipe(nlp)
    layers = (occurrence_layers(pipe, one.occurrences, name=one.word) for one in drawn)
    vectors = [_with_mix(pipe, each) for each in layers]
    return senses_section(drawn, vectors, _names(pipe), **settings)


def make_heat(nlp: Language, one: Sequence[str], other: Sequence[str]) -> dict[str, Any]:
    """Compute the vectors of two sentences, and make the section with their tokens' cosines.

    nlp (Language): A pipeline with a pipe `elmo`.
    one (Sequence[str]): Tokens of the first sentence.
    other (Sequence[str]): Tokens of the second sentence.
    RETURNS (dict): The section, for `make_page`.
    RAISES (ValueError): A sentence has no tokens.
    """
    if not one or not other:
        raise ValueError("a sentence to compare has no tokens")
    pipe = elmo_pipe(nlp)
    layers = pipe.predict([sentence_doc(nlp.vocab, tokens) for tokens in (one, other)])
    return heat_section((one, other), [_with_mix(pipe, each) for each in layers], _names(pipe))


def heat_section(
    tokens: Sequence[Sequence[str]], vectors: Sequence[Floats3d], names: Sequence[str]
) -> dict[str, Any]:
    """Make the section with the cosines between the tokens of two sentences.

    tokens (Sequence[Sequence[str]]): The tokens of both sentences.
    vectors (Sequence[Floats3d]): The vectors of both sentences, in each view (the layers and the
        mix). *Shape:* `(n_views, n_tokens, width)` each
    names (Sequence[str]): The names of the views.
    RETURNS (dict): The section, for `make_page`.
    """
    cosines = [unit_vectors(one) @ unit_vectors(two).T for one, two in zip(*vectors, strict=True)]
    return {
        "type": "heat",
        "views": list(names),
        "rows": list(tokens[0]),
        "columns": list(tokens[1]),
        "cosines": [pack_fractions(matrix) for matrix in cosines],
    }


def neighbors_section(
    sentence: Sequence[str], position: int, found: Sequence[Neighbor], *, layer: str
) -> dict[str, Any]:
    """Make the section with the nearest neighbors of a token.

    sentence (Sequence[str]): The tokens of the sentence.
    position (int): The position of the token, from 0.
    found (Sequence[Neighbor]): The result of `find_neighbors`.
    layer (str): The layer of the search.
    RETURNS (dict): The section, for `make_page`.
    """
    lines = [{**_parts(one.sentence, one.position), "cosine": one.similarity} for one in found]
    return {
        "type": "neighbors",
        "heading": f"Nearest by cosine, {describe_input(layer)}",
        **_parts(sentence, position),
        "lines": lines,
    }


def mix_section(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Make the section with the layer mixes of components.

    rows (Sequence[dict]): The result of `learned_mixes`.
    RETURNS (dict): The section, for `make_page`.
    """
    several = {row["component"] for row in rows if row["mix"]}
    has_upstreams = len({row.get("upstream") for row in rows}) > 1
    bars = []
    for row in rows:
        mix = f", mix {row['mix']}" if row["component"] in several else ""
        of = f" of {row['upstream']}" if has_upstreams and row.get("upstream") else ""
        name = f"{row['component']}{mix}{of} (gamma {row['gamma']:.3f})"
        for layer, weight in enumerate(row["weights"]):
            bars.append(_bar([name, f"layer {layer}"], weight, f"{weight:.3f}"))
    note = "The weights of a component sum to 1; gamma scales the mix."
    note = note if rows else "No component mixes ELMo layers."
    content = {"columns": ["component", "layer"], "measure": "weight", "rows": bars, "note": note}
    return {"type": "bars", "heading": "Layer mixes of the components", **content}


def probe_section(report: dict[str, Any], score: Optional[str] = None) -> dict[str, Any]:
    """Make the section with the scores of probes.

    report (dict): A `ProbeReport`, converted to a dict.
    score (Optional[str]): Name of the score to show. Default: the first score of the report.
    RETURNS (dict): The section, for `make_page`.
    """
    score = score or next(iter(report["rows"][0]["scores"]))
    bars = []
    for row in report["rows"]:
        value = row["scores"][score]
        bars.append(_bar([row["method"], row["input"] or "-"], value, f"{value:.2%}"))
    note = (
        f"{report['n_labels']:,} labels; trained on {report['n_train']:,}, tested on "
        f"{report['n_test']:,} ({report['n_unseen']:,} with a label that is not in the training "
        f"data)."
    )
    content = {"columns": ["predictor", "reads"], "measure": score, "rows": bars, "note": note}
    return {"type": "bars", "heading": f"Probes of {report['task']}", **content}


def curve_section(rows: Sequence[dict[str, Any]], score: str) -> dict[str, Any]:
    """Make the section with the curve of a score over the share of damaged words.

    rows (Sequence[dict]): The results of `measure_robustness`.
    score (str): Name of the score.
    RETURNS (dict): The section, for `make_page`.
    """
    values = [row["scores"][score] for row in rows]
    low = floor(10 * min(values))  # Scores on the axis are in tenths.
    high = max(low + 1, ceil(10 * max(values)))
    last = max(row["damaged"] for row in rows) or 1.0
    lines: dict[str, list] = {}
    for row, value in zip(rows, values):
        point = [row["damaged"] / last, (10 * value - low) / (high - low), f"{value:.2%}"]
        lines.setdefault(row["damage"], []).append([*point, f"{row['damaged']:.1%}"])
    return {
        "type": "curve",
        "heading": f"{score} by share of damaged words",
        "across": [[i / 4, f"{i * last / 4:.1%}"] for i in range(5)],
        "up": [[(i - low) / (high - low), f"{i / 10:.0%}"] for i in range(low, high + 1)],
        "lines": [{"name": name, "points": points} for name, points in lines.items()],
    }


def _bar(names: list[str], share: float, figure: str) -> dict[str, Any]:
    return {"names": names, "share": min(1.0, max(0.0, share)), "figure": figure}


def label_layers(n: int) -> list[str]:
    """Return the labels of n layers: "layer 0", "layer 1" and so on."""
    return [f"layer {number}" for number in range(n)]


def _names(pipe: Elmo) -> list[str]:
    mix = pipe.settings.mix
    name = mix if isinstance(mix, str) else f"layer {mix}" if isinstance(mix, int) else None
    return [*label_layers(pipe.bilm.config.n_layers + 1), f"mix ({name})" if name else "mix"]


def _with_mix(pipe: Elmo, layers: Floats3d) -> Floats3d:
    """Append the pipe's mix of the layers as one more layer. *Shape:* `(L + 2, n, 2P)`."""
    return np.concatenate([layers, mix_layers(layers, pipe.settings.mix)[None]])


def _parts(tokens: Sequence[str], position: int) -> dict[str, str]:
    """Split a sentence into the context before a token, the token, and the context after it."""
    start, end = max(0, position - CONTEXT), position + CONTEXT + 1
    return {
        "before": " ".join([*(["…"] if start else []), *tokens[start:position]]),
        "itself": tokens[position],
        "after": " ".join([*tokens[position + 1 : end], *(["…"] if end < len(tokens) else [])]),
    }
