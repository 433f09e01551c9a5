"""Training of a pipeline: its parts, one after the other, and the pipeline of these parts.

Trees and entities are annotated in different texts, and need different numbers of steps. So a
config for trees and a config for entities are trained, and a third config assembles the pipeline
with `spacy assemble`. ELMo is frozen, so all parts have the same language model. Its layers are in
one file, which all trainings read.

Each part of each seed is trained once: run the script again to continue after an interruption.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import srsly
import typer
from spacy.cli.train import train
from spacy.util import load_config, load_model_from_config
from wasabi import msg

from spacy_elmo.files import atomic_write

CONFIGS = Path("configs/pipelines")
FINISHED = "finished.json"  # Scores on the dev set, written at the end of a training.
BEST = "dev.json"  # Number of the best seed, and the scores of all seeds on the dev set.
PARTS = {"syntax": "trees", "ner": "."}  # Part of the pipeline, and folder of its data.
LABELS = "labels"
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
    suffix (str): End of the names of the configs of its parts.
    score (Dict[str, str]): Score on the dev set that is best in the best seed, by part.
    """

    corpus: str
    suffix: str
    score: dict[str, str]


ENGLISH = {"syntax": "dep_las", "ner": "ents_f"}
PIPELINES = {
    "en_elmo_web_sm": Pipeline("en_web", "_elmo", ENGLISH),
    "en_web_sm": Pipeline("en_web", "", ENGLISH),
}


def main(
    name: str = typer.Argument(..., help=f"Name of the pipeline: {', '.join(PIPELINES)}"),
    elmo: str = typer.Option("en_small", help="Language model, if the pipeline has one"),
    seeds: str = typer.Option("0,1,2", help="Random seeds, separated by commas"),
    plan: str = typer.Option("full", help="full, or quick (some steps, to try the workflow)"),
    gpu_id: int = typer.Option(-1, help="Number of the GPU; -1: CPU"),
) -> None:
    """Train a pipeline with several seeds, and find the best seed."""
    if name not in PIPELINES:
        msg.fail(f"There is no pipeline '{name}'. Choose {' or '.join(PIPELINES)}", exits=1)
    pipeline = PIPELINES[name]
    root = FOLDERS[plan] / name
    scores = {}
    for seed in map(int, seeds.split(",")):
        folder = root / f"seed-{seed}"
        found = {
            part: train_part(pipeline, part, folder / part, elmo, seed, plan, gpu_id)
            for part in PARTS
        }
        assemble(name, folder, elmo)
        scores[seed] = {part: found[part][pipeline.score[part]] for part in PARTS}
    best = max(scores, key=lambda seed: sum(scores[seed].values()))
    atomic_write(root / BEST, srsly.json_dumps({"best": best, "seeds": scores}, indent=2) + "\n")
    msg.good(f"{root}: seed {best} is best on the dev set: {scores[best]}")


def train_part(
    pipeline: Pipeline, part: str, folder: Path, elmo: str, seed: int, plan: str, gpu_id: int
) -> dict[str, Any]:
    """Train a part of a pipeline, unless it is finished, and return its scores on the dev set."""
    if not (folder / FINISHED).is_file():
        corpus = Path("corpus") / pipeline.corpus
        overrides: dict[str, Any] = {
            "paths.train": str(corpus / "train" / PARTS[part]),
            "paths.dev": str(corpus / "dev" / PARTS[part]),
            "paths.labels": str(corpus / LABELS),
            "system.seed": seed,
        }
        if pipeline.suffix:
            overrides |= {"paths.elmo": elmo, "paths.features": str(corpus / "elmo.sqlite")}
        if plan == "quick":
            overrides |= QUICK
        config = CONFIGS / f"{part}{pipeline.suffix}.cfg"
        train(config, folder, use_gpu=gpu_id, overrides=overrides)
        meta = srsly.read_json(folder / "model-best" / "meta.json")
        atomic_write(folder / FINISHED, json.dumps(meta["performance"], indent=2))
    scores: dict[str, Any] = srsly.read_json(folder / FINISHED)
    return scores


def assemble(name: str, folder: Path, elmo: str) -> None:
    """Write the pipeline of the parts in a folder to the folder `pipeline` in it."""
    config = load_config(CONFIGS / f"{name}.cfg", interpolate=False)
    config["paths"] |= {part: str(folder / part / "model-best") for part in PARTS}
    if "elmo" in config["paths"]:
        config["paths"]["elmo"] = elmo
    nlp = load_model_from_config(config, auto_fill=True)
    nlp.meta["name"] = name.removeprefix(f"{nlp.lang}_")
    nlp.to_disk(folder / "pipeline")


if __name__ == "__main__":
    typer.run(main)
