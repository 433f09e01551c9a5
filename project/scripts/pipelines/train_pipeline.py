"""Training of a pipeline: its parts, one after the other, and the pipeline of these parts.

Trees and entities are annotated in different texts, and need different numbers of steps. So a
config for trees and a config for entities are trained, and a third config assembles the pipeline
with `spacy assemble`. ELMo is frozen, so all parts have the same language model. Its layers are in
one file, which all trainings read.

If labeled text is scarce, the pipeline is trained twice. The first training leaves out the dev set,
whose scores choose the seed. The second training has the same seed and number of steps, and reads
the dev set, too. The pipeline has the model of the second training.

Each part of each seed is trained once: run the script again after an interruption. A training that
was interrupted starts from its beginning. A finished training with other settings, such as another
language model, is an error.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Optional

import srsly
import typer
from spacy.cli.train import train
from spacy.util import dot_to_object, load_config, load_model_from_config
from wasabi import msg

from spacy_elmo.files import atomic_write

CONFIGS = Path("configs/pipelines")
FINISHED = "finished.json"  # Scores on the dev set, written at the end of a training.
BEST = "dev.json"  # Number of the best seed, and the scores of all seeds on the dev set.
PARTS = {"syntax": "trees", "ner": "."}  # Part of the pipeline, and folder of its data.
LABELS = "labels"
FEATURES = "elmo.sqlite"
FOLDERS = {"full": Path("training"), "quick": Path("training/quick")}
QUICK = {
    "training.max_steps": 60,
    "training.eval_frequency": 30,
    "training.optimizer.learn_rate.warmup_steps": 5,
    "training.batcher.size": 300,
    "corpora.train.limit": 60,
    "corpora.dev.limit": 10,
}


@dataclass(frozen=True)
class Pipeline:
    """Pipeline that is made of parts.

    corpus (str): Folder in `corpus/` with the folders `train`, `dev` and `labels`.
    elmo (Optional[str]): Its language model, if it has one.
    score (Dict[str, str]): Score on the dev set that is best in the best seed, by part.
    overrides (Dict[str, Any]): Settings of the parts that differ from their configs.
    final (Optional[str]): Folder in `corpus` with training and dev data, for a second training.
    """

    corpus: str
    elmo: Optional[str]
    score: dict[str, str]
    overrides: dict[str, Any] = field(default_factory=dict)
    final: Optional[str] = None

    def config(self, part: str) -> Path:
        """Return the path of a part's config."""
        return CONFIGS / f"{part}{'_elmo' if self.elmo else ''}.cfg"


ENGLISH = {"syntax": "dep_las", "ner": "ents_f"}
# F on the dev set was 62.7 after 1,000 steps, and 63.1 after 1,500 and 2,000: more gain little.
GERMAN = {"nlp.lang": "de", "training.max_steps": 2000}
ENTITIES = {"ner": "ents_f"}
DE_HISTORICAL = "../wheels/de_historical.safetensors"
PIPELINES = {
    "en_elmo_web_sm": Pipeline("en_web", "en_small", ENGLISH),
    "en_web_sm": Pipeline("en_web", None, ENGLISH),
    "de_elmo_historical_sm": Pipeline("de_newspapers", DE_HISTORICAL, ENTITIES, GERMAN, "all"),
    "de_historical_sm": Pipeline("de_newspapers", None, ENTITIES, GERMAN, "all"),
}


def main(
    names: list[str] = typer.Argument(..., help=f"Names of pipelines: {', '.join(PIPELINES)}"),
    elmo: Optional[str] = typer.Option(
        None, help="Other language model of the pipelines that have one"
    ),
    seeds: str = typer.Option("0,1,2", help="Random seeds, separated by commas"),
    plan: str = typer.Option("full", help="full, or quick (some steps, to try the workflow)"),
    jobs: int = typer.Option(1, min=1, help="Number of trainings at the same time, on a core each"),
    gpu_id: int = typer.Option(-1, help="Number of the GPU; -1: CPU"),
) -> None:
    """Train pipelines with several seeds, and find the best seed of each."""
    unknown = set(names) - set(PIPELINES)
    if unknown:
        msg.fail(f"There is no pipeline '{unknown.pop()}'. Choose from {list(PIPELINES)}", exits=1)
    numbers = [int(seed) for seed in seeds.split(",")]
    if jobs > 1:
        options = ["--plan", plan, "--gpu-id", str(gpu_id), *(["--elmo", elmo] if elmo else [])]
        with ThreadPoolExecutor(jobs) as pool:
            runs = [(name, "--seeds", str(seed), *options) for seed in numbers for name in names]
            list(pool.map(run_alone, runs))
    for name in names:
        scores = {
            seed: train_seed(name, FOLDERS[plan] / name / f"seed-{seed}", elmo, seed, plan, gpu_id)
            for seed in numbers
        }
        best = max(scores, key=lambda seed: sum(scores[seed].values()))
        found = srsly.json_dumps({"best": best, "seeds": scores}, indent=2)
        atomic_write(FOLDERS[plan] / name / BEST, found + "\n")
        msg.good(f"{name}: seed {best} is best on the dev set: {scores[best]}")


def run_alone(arguments: Sequence[str]) -> None:
    """Run this script in a new process, with one thread."""
    command = [sys.executable, "-m", "scripts.pipelines.train_pipeline", *arguments]
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def train_seed(
    name: str, folder: Path, elmo: Optional[str], seed: int, plan: str, gpu_id: int
) -> dict[str, float]:
    """Train the parts of a pipeline, assemble it, and return its scores on the dev set by part."""
    pipeline = PIPELINES[name]
    if elmo and pipeline.elmo:
        pipeline = replace(pipeline, elmo=elmo)
    scores, models = {}, {}
    for part, score in pipeline.score.items():
        output = folder / part
        scores[part] = train_part(pipeline, part, "train", output, seed, plan, gpu_id)[score]
        models[part] = output / "model-best"
        if pipeline.final:
            # The dev set is training data now, so its scores cannot choose a step.
            output = folder / f"{part}-final"
            train_part(pipeline, part, pipeline.final, output, seed, plan, gpu_id)
            models[part] = output / "model-last"
    assemble(name, folder / "pipeline", models, pipeline.elmo)
    return scores


def train_part(
    pipeline: Pipeline, part: str, data: str, folder: Path, seed: int, plan: str, gpu_id: int
) -> dict[str, Any]:
    """Train a part of a pipeline, unless it is finished, and return its scores on the dev set."""
    corpus = Path("corpus") / pipeline.corpus
    overrides: dict[str, Any] = {
        "paths.train": str(corpus / data / PARTS[part]),
        "paths.dev": str(corpus / "dev" / PARTS[part]),
        "paths.labels": str(corpus / LABELS),
        "system.seed": seed,
        **pipeline.overrides,
    }
    if pipeline.elmo:
        overrides |= {"paths.elmo": pipeline.elmo, "paths.features": str(corpus / FEATURES)}
    if plan == "quick":
        overrides |= QUICK
    if (folder / FINISHED).is_file():
        check_settings(folder, overrides)
    else:
        train(pipeline.config(part), folder, use_gpu=gpu_id, overrides=overrides)
        meta = srsly.read_json(folder / "model-best" / "meta.json")
        atomic_write(folder / FINISHED, json.dumps(meta["performance"], indent=2))
    scores: dict[str, Any] = srsly.read_json(folder / FINISHED)
    return scores


def check_settings(folder: Path, overrides: Mapping[str, Any]) -> None:
    """Exit with an error if the model in a folder was trained with other settings."""
    config = load_config(folder / "model-best" / "config.cfg")
    for name, value in overrides.items():
        found = dot_to_object(config, name)
        if found != value:
            msg.fail(
                f"{folder} was trained with {name} = {found}, not {value}",
                "To train with the new setting, move this folder away.",
                exits=1,
            )


def assemble(name: str, output: Path, models: Mapping[str, Path], elmo: Optional[str]) -> None:
    """Write the pipeline of trained parts to a folder."""
    config = load_config(CONFIGS / f"{name}.cfg", interpolate=False)
    config["paths"] |= {part: str(path) for part, path in models.items()}
    if elmo:
        config["paths"]["elmo"] = elmo
    nlp = load_model_from_config(config, auto_fill=True)
    nlp.meta["name"] = name.removeprefix(f"{nlp.lang}_")
    nlp.to_disk(output)


if __name__ == "__main__":
    typer.run(main)
