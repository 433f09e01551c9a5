"""Runs of the project's experiments, for its tests."""

from scripts.experiments.runs import Run


def make_run(row, seed=0, scores=(), **more):
    """A run of "EXPERIMENT DATA VARIANT"."""
    experiment, data, variant = row.split(" ", 2)
    own = {"experiment": experiment, "data": data, "variant": variant, "seed": seed}
    return Run(**own, scores=dict(scores), **more)
