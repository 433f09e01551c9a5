"""Frames (predicates with their roles) in `doc.spans["srl"]`, and the scorer."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Optional

import numpy as np
from spacy.scorer import PRFScore
from spacy.tokens import Doc, Span
from spacy.training import Example

from ...embedding.segmenters import Segmenter, cut_into_segments, segment_of
from ...registry import registry
from ..shared.bio import BIOTags, LabeledSpan
from ..shared.spans import Aligner, checked_spans, span_error, to_predicted, to_reference

KEY = "srl"
PREDICATE = "V"  # Label of the predicate itself.
Frames = dict[int, list[LabeledSpan]]  # From the token of a predicate to its roles.


def read_frames(doc: Doc) -> Optional[Frames]:
    """Read the roles of each predicate from `doc.spans["srl"]`, including V, the predicate itself.

    RETURNS (Optional[Dict[int, List[Tuple[int, int, str]]]]): A dict from the token index of each
        predicate to its roles: first token, the token after the last one, and label. None if the
        Doc has no such span group.
    RAISES (ValueError): A span has no tokens or no label, its `id` is not the index of a token, or
        the `id` of V is not the first token of V.
    """
    if KEY not in doc.spans:
        return None
    frames: Frames = {}
    for span in _checked_spans(doc):
        frames.setdefault(span.id, []).append((span.start, span.end, span.label_))
    return {predicate: sorted(frames[predicate]) for predicate in sorted(frames)}


def _checked_spans(doc: Doc) -> Iterator[Span]:
    for span in checked_spans(doc, KEY):
        fault = ""
        if not 0 <= span.id < len(doc):
            fault = f"the Doc has {len(doc)} tokens. The id must be the token of the predicate"
        elif span.label_ == PREDICATE and span.start != span.id:
            fault = (
                f"V must begin at its predicate. Create it with span_id={span.start}. "
                f"(`Doc.from_docs` does not update the ids of spans.)"
            )
        if fault:
            raise span_error(span, KEY, f"has the id {span.id}, but {fault}")
        yield span


def write_frames(doc: Doc, frames: Frames) -> None:
    """Write roles, as `read_frames` returns them, to `doc.spans["srl"]`."""
    doc.spans[KEY] = [
        Span(doc, start, end, label=label, span_id=predicate)
        for predicate, roles in frames.items()
        for start, end, label in roles
    ]


def roles_by_predicate(doc: Doc) -> dict[int, dict[str, list[Span]]]:
    """Return the value of `doc._.srl`: the spans of roles, by token of the predicate and by label.

    RAISES (ValueError): A span has no tokens, no label or an invalid `id`.
    """
    roles: dict[int, dict[str, list[Span]]] = {}
    for span in _checked_spans(doc):
        roles.setdefault(span.id, {}).setdefault(span.label_, []).append(span)
    return dict(sorted(roles.items()))


class SRLTags(BIOTags):
    """Converter between the roles of one predicate and BIO tags. Only the predicate has B-V."""

    def decode_roles(self, scores: np.ndarray, predicate: int) -> np.ndarray:
        """Find the best valid sequence of tags that has B-V at the predicate, and only there.

        scores (numpy.ndarray): Scores of each tag at each token. *Shape:* `(n_tokens, n_tags)`
        """
        fixed = np.array(scores)
        fixed[:, self.begin(PREDICATE)] = -np.inf
        fixed[predicate] = -np.inf
        fixed[predicate, self.begin(PREDICATE)] = 0.0
        return self.decode(fixed)


def gold_frames(example: Example) -> Optional[Frames]:
    """Return the gold roles as token positions in the predicted Doc; None without annotation."""
    frames = read_frames(example.reference)
    return frames and _align(frames, to_predicted(example))


def predicted_frames(example: Example) -> Frames:
    """Return the predicted roles as token positions in the reference."""
    return _align(read_frames(example.predicted) or {}, to_reference(example))


def _align(frames: Frames, aligner: Aligner) -> Frames:
    """Convert the token positions in frames to positions in another Doc of the same text.

    Drop roles that begin or end inside a token of the other Doc. If two predicates are in the same
    token of the other Doc, drop the second predicate.
    """
    aligned: Frames = {}
    for predicate, roles in frames.items():
        tokens = aligner.tokens(predicate, predicate + 1)
        if not tokens or tokens[0] in aligned:
            continue
        found = [(aligner.span(start, end), label) for start, end, label in roles]
        aligned[tokens[0]] = [(*span, label) for span, label in found if span is not None]
    return aligned


def with_predicate(predicate: int, roles: list[LabeledSpan]) -> list[LabeledSpan]:
    """Return the roles of a predicate. If V, the predicate itself, is missing, add it."""
    if any(label == PREDICATE for _, _, label in roles):
        return roles
    return sorted([*roles, (predicate, predicate + 1, PREDICATE)])


def checked_frames(doc: Doc, frames: Frames, segmenter: Segmenter, labels: Sequence[str]) -> Frames:
    """Check the gold roles of a Doc. If V, the predicate itself, is missing, add it.

    RAISES (ValueError): Two roles of a predicate overlap, a role is not in the sentence of its
        predicate, or a label is unknown.
    """
    segments = cut_into_segments(doc, segmenter)
    checked = {predicate: with_predicate(predicate, roles) for predicate, roles in frames.items()}
    for predicate, roles in checked.items():
        first, stop, *_ = segment_of(segments, predicate)
        for (start, end, label), following in zip(roles, [*roles[1:], (len(doc), len(doc), "")]):
            fault = ""
            if following[0] < end:
                other = f"{following[2]} ({following[0]}, {following[1]})"
                fault = f"overlaps {other}, but a token has only one role per predicate"
            elif start < first or end > stop:
                fault = (
                    f"is not within the sentence ({first}, {stop}). Correct one of them. (If the "
                    f"Doc has no sentences, set segmenter to spacy-elmo.sentences.v1.)"
                )
            elif label not in labels:
                fault = "has a label that the pipe does not know. Initialize it with this label"
            if fault:
                role = f"is a role of {doc[predicate].text!r} (token {predicate}) and"
                raise span_error(Span(doc, start, end, label=label), KEY, f"{role} {fault}")
    return checked


# Scores

LEFT_OUT = (PREDICATE, f"C-{PREDICATE}")
Role = tuple[int, int, int, str]  # Predicate, first token, token after the last one, label.


@registry.scorers("spacy-elmo.srl_scorer.v1")
def make_srl_scorer() -> Callable:
    """Return the scorer of `elmo_srl`, the function `score_srl`."""
    return score_srl


def score_srl(examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
    """Compute precision, recall and F-score of roles and of predicates.

    A role is right if its predicate, first token, last token and label are right. V and C-V do not
    count as roles, because they are the predicate itself. Examples whose reference has no
    `doc.spans["srl"]` are skipped.

    RETURNS (Dict[str, Any]): For roles `srl_p`, `srl_r` and `srl_f`, and the same by label in
        `srl_per_type`. For predicates `srl_predicates_p`, `srl_predicates_r` and
        `srl_predicates_f`. They are None if there is nothing to count.
    """
    roles, predicates = PRFScore(), PRFScore()
    per_type: dict[str, PRFScore] = defaultdict(PRFScore)
    for example in examples:
        gold = read_frames(example.reference)
        if gold is None:
            continue
        found = predicted_frames(example)
        predicates.score_set(set(found), set(gold))
        found_roles, gold_roles = _roles(found), _roles(gold)
        roles.score_set(found_roles, gold_roles)
        for label in {role[-1] for role in found_roles | gold_roles}:
            sides = ({r for r in side if r[-1] == label} for side in (found_roles, gold_roles))
            per_type[label].score_set(*sides)
    by_label = {label: score.to_dict() for label, score in sorted(per_type.items())}
    return {
        **_scores("srl", roles),
        "srl_per_type": by_label if len(roles) else None,
        **_scores("srl_predicates", predicates),
    }


def _roles(frames: Frames) -> set[Role]:
    return {
        (predicate, start, end, label)
        for predicate, roles in frames.items()
        for start, end, label in roles
        if label not in LEFT_OUT
    }


def _scores(name: str, score: PRFScore) -> dict[str, Any]:
    scores = score.to_dict() if len(score) else dict.fromkeys("prf")
    return {f"{name}_{key}": value for key, value in scores.items()}
