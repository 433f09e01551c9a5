"""Runs of the project's experiments, for its tests."""

from scripts.experiments.runs import Run


def make_run(row, seed=0, scores=(), **more):
    """A run of "EXPERIMENT DATA VARIANT"."""
    experiment, data, variant = row.split(" ", 2)
    own = {"experiment": experiment, "data": data, "variant": variant, "seed": seed}
    return Run(**own, scores=dict(scores), **more)


def make_damaged(row, seed, *scores):
    """Return a run with its F if no word and if a tenth are damaged; 0.1 more for "ocr"."""
    points = [
        {"damage": kind, "rate": rate, "score": score + more}
        for kind, more in (("keyboard", 0.0), ("ocr", 0.1))
        for rate, score in zip((0.0, 0.1), scores)
    ]
    return make_run(row, seed, {"ents_f": scores[0]}, robustness=points)
