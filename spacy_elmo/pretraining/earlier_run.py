"""Earlier run in an output folder: what is deleted with `overwrite`, and what stops a new run."""

from pathlib import Path
from typing import Union

from ..files import user_path
from ..files.unfinished import delete
from ..text.prepare import is_foreign_corpus, manifest_of
from ..weights.formats import read_bundle
from ..weights.pipeline_folder import PipelineFolder
from .checkpoint import checkpoints
from .config import PretrainingConfig
from .reporting import METRICS, is_metrics
from .texts import InputTexts


def make_room(
    config: PretrainingConfig, texts: InputTexts, output: Path, *, resume: bool, overwrite: bool
) -> None:
    """Delete the earlier run in the output folder with `overwrite`, or check that there is none.

    config (PretrainingConfig): The settings of the new run.
    texts (InputTexts): The texts of the new run. They are found before anything is deleted.
    output (Path): The output folder.
    resume (bool): Whether the run resumes an earlier run.
    overwrite (bool): Whether to delete the earlier run.
    RAISES (ValueError): An input cannot be read or would be deleted, the folder contains a run but
        `resume` and `overwrite` are False, or it contains something else.
    """
    inputs: list[Union[str, Path]] = []
    for text in (texts.train, texts.dev):
        if text.prepared is None:
            inputs += text.files
        else:
            manifest_of(text.prepared)
            inputs.append(text.prepared)
    found = _earlier_run(output)
    if overwrite:
        corpus = output / "corpus"
        if corpus.exists() and is_foreign_corpus(corpus):
            raise ValueError(f"{corpus} is not a prepared corpus. Give another output folder.")
        if config.pretraining.init is not None:
            read_bundle(config.pretraining.init)
            inputs.append(config.pretraining.init)
        outputs = [*found, corpus]
        _check_apart(inputs, outputs)
        for path in outputs:
            delete(path)
    elif not resume and found:
        name = "checkpoints" if found[0].parent.name == "checkpoints" else found[0].name
        raise ValueError(
            f"{output} contains the {name} of a run. `resume=True` resumes it, "
            f"`overwrite=True` deletes it and starts again."
        )


def _check_apart(inputs: list[Union[str, Path]], outputs: list[Path]) -> None:
    """Check that a run does not delete its own inputs.

    RAISES (ValueError): An input is one of the outputs, or is inside one.
    """
    deleted = [output.resolve() for output in outputs]
    for given in inputs:
        path = user_path(given).resolve()
        for output in deleted:
            if path.is_relative_to(output):
                raise ValueError(
                    f"{given} is an input of this run, but `overwrite=True` deletes {output}. Move "
                    f"the input, or give another output folder."
                )


def _earlier_run(output: Path) -> list[Path]:
    """Return the checkpoints, models and metrics that an earlier run wrote to `output`.

    RAISES (ValueError): A folder or file has the name of a model or of metrics, but is neither.
    """
    models = [path for path in (output / "model-best", output / "model-last") if path.exists()]
    for model in models:
        if not model.is_dir() or PipelineFolder.is_foreign(model):
            raise ValueError(
                f"{model} is not from a pretraining, or contains other files. Move these away, or "
                f"give another output folder."
            )
    metrics = output / METRICS
    if metrics.exists() and not is_metrics(metrics):
        raise ValueError(f"{metrics} is not from a pretraining. Give another output folder.")
    has_metrics = metrics.exists() and metrics.stat().st_size > 0
    return [*checkpoints(output / "checkpoints"), *models, *[metrics] * has_metrics]
