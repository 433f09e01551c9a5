"""The scores of semantic roles."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from spacy.scorer import PRFScore
from spacy.training import Example

from ...registry import registry
from .frames import PREDICATE, Frames, predicted_frames, read_frames

LEFT_OUT = (PREDICATE, f"C-{PREDICATE}")
Role = tuple[int, int, int, str]  # predicate, first token, the token after the last one, label


@registry.scorers("spacy-elmo.srl_scorer.v1")
def make_srl_scorer() -> Callable:
    """Return `score_srl`."""
    return score_srl


def score_srl(examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
    """Compute precision, recall and F-score of roles.

    A role is right if its predicate, first token, last token and label are. V and C-V, which are
    the predicate itself, are left out. Examples whose reference has no `doc.spans["srl"]` do not
    count.

    examples (Iterable[Example]): The examples.
    RETURNS (Dict[str, Any]): `srl_p`, `srl_r` and `srl_f`; the same by label in `srl_per_type`; and
        `srl_predicates_p`, `srl_predicates_r` and `srl_predicates_f` of the predicates only. They
        are None if there is nothing to count.
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
