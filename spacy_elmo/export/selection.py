"""Selection for export: tokens and spans, and layers or their mix."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Optional

import numpy as np
from spacy.language import Language
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc
from thinc.api import Model

from ..embedding.mix import mix_layers
from ..layers.scalar_mix import mix_weights, mixes_of
from ..pipeline.load import elmo_pipe

POOLS = "sentence", "doc", "span"
WORDS = "ents", "nouns"  # Values of `only` that are not labels.
PLACES = {"doc.ents", "doc.spans"}
VECTOR = "vector"  # The mix of the pipe `elmo`.
LAYERS = VECTOR, "all", "top", "average"
MIX = "mix:"

Labelled = tuple[int, int, str]  # Start, end and label of a span.
Choose = Callable[[np.ndarray], np.ndarray]


class SelectedSpan(NamedTuple):
    """Group of tokens that is exported as one vector.

    start (int): Index of the first token.
    end (int): Index after the last token.
    label (str): Label of the span; "" without a label.
    text (str): The text.
    tokens (Sequence[int]): Indices of the tokens whose vectors are averaged.
    """

    start: int
    end: int
    label: str
    text: str
    tokens: Sequence[int]


class SpanSelector(NamedTuple):
    """Rule that selects the tokens and spans that get a vector.

    pool (Optional[str]): Unit that gets a vector: "sentence", "doc", or "span" (the spans of
        `only`). Default: a token.
    only (Optional[str]): Tokens to use: "ents", "nouns", or labels of spans and entities,
        separated by commas. Default: all tokens.
    """

    pool: Optional[str]
    only: Optional[str]

    def check(self) -> None:
        """Check the settings.

        RAISES (ValueError): `pool` is unknown, `pool` is "span" without `only`, or a label in
            `only` is empty.
        """
        if self.pool not in (None, *POOLS):
            raise ValueError(f"`pool` must be one of {', '.join(POOLS)}, got '{self.pool}'")
        if self.pool == "span" and self.only is None:
            raise ValueError("`pool=span` needs spans. Set `only` to ents, or to their labels.")
        if self.only is not None and not all(self.only.split(",")):
            raise ValueError(f"`only` must be ents, nouns or LABEL,LABEL..., got '{self.only}'")

    def __call__(self, doc: Doc) -> list[SelectedSpan]:
        """Select the tokens and spans that get a vector.

        doc (Doc): The Doc. If `pool` is "sentence" and the Doc has no sentence boundaries, a
            sentencizer sets them.
        RETURNS (List[SelectedSpan]): The spans, in order.
        RAISES (ValueError): The Doc does not have the annotations that `only` needs.
        """
        spans = sorted({*self._spans(doc)}) if self.only else []
        if self.pool == "span":
            return [
                SelectedSpan(start, end, label, doc[start:end].text, range(start, end))
                for start, end, label in spans
            ]
        labels = {i: label for start, end, label in spans for i in range(start, end)}
        if self.pool is None:
            return [SelectedSpan(i, i + 1, labels[i], doc[i].text, [i]) for i in sorted(labels)]
        found = []
        for whole in _sentences(doc) if self.pool == "sentence" else [doc[:]]:
            tokens = [i for i in range(whole.start, whole.end) if not self.only or i in labels]
            if tokens:
                found.append(SelectedSpan(whole.start, whole.end, "", whole.text, tokens))
        return found

    def _spans(self, doc: Doc) -> Iterator[Labelled]:
        for name in (self.only or "").split(","):
            if name == "nouns":
                self._check(name, doc.has_annotation("POS"), "no parts of speech")
                yield from ((t.i, t.i + 1, t.pos_) for t in doc if t.pos_ in ("NOUN", "PROPN"))
                continue
            groups = [] if name == "ents" else list(doc.spans.values())
            is_annotated = bool(groups) or doc.has_annotation("ENT_IOB")
            self._check(name, is_annotated or not len(doc), "no entities or spans")
            for group in (doc.ents, *groups):
                for span in group:
                    if name in ("ents", span.label_):
                        yield span.start, span.end, span.label_

    def _check(self, name: str, is_annotated: bool, missing: str) -> None:
        if not is_annotated:
            raise ValueError(
                f"`only={name}`: the text has {missing}. Use a pipeline with a component that sets "
                f"them, or .spacy files that have them."
            )


def labels_of(nlp: Language) -> Optional[set[str]]:
    """Return the labels of entities and spans that a pipeline can set.

    nlp (Language): The pipeline.
    RETURNS (Optional[Set[str]]): The labels; None if a component does not declare its labels.
    """
    labels: set[str] = set()
    for name, pipe in nlp.pipeline:
        places = set(nlp.get_pipe_meta(name).assigns)
        module = getattr(pipe, "__module__", type(pipe).__module__)
        if PLACES & places and hasattr(pipe, "labels"):
            labels.update(pipe.labels)
        elif PLACES & places or not (places or module.startswith("spacy.")):
            return None
    return labels


def _sentences(doc: Doc) -> Iterator[Doc]:
    if not doc.has_annotation("SENT_START"):
        Sentencizer()(doc)
    return doc.sents


def choose_layers(name: str, nlp: Language) -> tuple[Choose, dict[str, Any]]:
    """Return the function that selects or mixes layers.

    name (str): "vector" (the pipe's `mix`), "all", "top", "average", the number of a layer,
        or "mix:PIPE" (the mix that a component learned). If a component has several mixes:
        "mix:PIPE:0", "mix:PIPE:1" and so on.
    nlp (Language): The pipeline.
    RETURNS (Tuple[Callable, dict]): The function, and a description of the choice as a JSON object.
        The function maps the layers of a text, `(n_layers + 1, n_tokens, width)`, to the same shape
        or to `(n_tokens, width)`.
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
