"""A probe from beginning to end."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Optional

from spacy.language import Language

from ..files import progress_bar
from ..pipeline.load import elmo_pipe
from .classifier import require_sklearn
from .items import parse_task
from .probes import probe_labels
from .report import Report
from .sample import check_inputs, read_sample
from .senses import probe_senses


def probe(
    nlp: Language,
    train: Path,
    test: Path,
    task: str,
    *,
    inputs: Optional[Sequence[str]] = None,
    limit: int = 50_000,
    seed: int = 0,
    neighbors: int = 1,
) -> Report:
    """Train probes on the layers of a language model, and evaluate them.

    nlp (Language): A pipeline with a pipe `elmo`; `read_pipeline` makes one of weights.
    train (Path): Labelled Docs to train on: a .spacy file, or a folder of them.
    test (Path): Labelled Docs to predict.
    task (str): "tag", "pos", "dep", "ent", "cats", "spans:NAME" or "senses:NAME".
    inputs (Optional[List[str]]): What to read: layers, "average", "concat"; None
        for each layer and their average.
    limit (int): Most items (tokens, spans or Docs) of each corpus; 0 for all.
    seed (int): Seed by which Docs are drawn where there are more.
    neighbors (int): Neighbors that vote for a sense.
    RETURNS (Report): The scores.
    RAISES (ValueError): Something of it does not fit or cannot be read.
    RAISES (ImportError): scikit-learn is not installed.
    """
    require_sklearn()
    parsed = parse_task(task)
    inputs = check_inputs(inputs, elmo_pipe(nlp).bilm.config.n_layers)
    start = time.perf_counter()
    known, asked = (
        read_sample(nlp, path, parsed, limit=limit, seed=seed) for path in (train, test)
    )
    embedding_seconds = time.perf_counter() - start
    if parsed.is_senses:
        rows = probe_senses(known, asked, inputs, k=neighbors)
    else:
        rows = probe_labels(known, asked, inputs)
    with progress_bar(None, "probes", in_logs=False, iterable=rows) as bar:
        found = list(bar)
    labels = set(known.labels)
    return Report(
        task=task,
        n_labels=len(labels),
        n_train=len(known),
        n_test=len(asked),
        n_unseen=sum(label not in labels for label in asked.labels),
        embedding_seconds=embedding_seconds,
        rows=found,
    )
