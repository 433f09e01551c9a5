"""Scores, speed, memory and size of pipelines, in one JSON file for each.

The files compare pipelines of different label schemes, such as `en_core_web_sm`. So entity types
are mapped to persons, places and organizations. OntoNotes counts the article and the genitive
ending as parts of a name, and the other corpora do not. So both are cut off for pipelines with the
types of OntoNotes. Trees are only scored if the pipeline has the relations of Universal
Dependencies. Unlike spaCy's own scores, the scores of trees count punctuation, as is usual for
Universal Dependencies.

A pipeline for German is scored on the test parts of three newspapers, and on copies of them with
OCR errors, in other letter cases, and with the spellings of archives.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Optional

import numpy as np
import spacy
import srsly
import typer
from spacy.language import Language
from spacy.scorer import Scorer
from spacy.tokens import Doc, Span, Token
from spacy.training import Corpus, Example
from wasabi import msg

from spacy_elmo.analysis.robustness import measure_robustness
from spacy_elmo.files import atomic_write

from ..data.damage_docs import DAMAGES as ARCHIVE_DAMAGES
from ..data.damage_docs import MAX_SENTENCES, damage
from .train_pipeline import FOLDERS

METRICS = {"full": Path("metrics/pipelines"), "quick": Path("metrics/quick/pipelines")}
CORPUS = Path("corpus/en_web")
TEST = {
    "UD EWT test": CORPUS / "test/ewt-sentences.spacy",
    "GUM dev": CORPUS / "test/gum-sentences.spacy",
}
RAW = {"UD EWT test": CORPUS / "test/ewt.spacy", "GUM dev": CORPUS / "dev/trees/gum.spacy"}
BTC = CORPUS / "dev/names/btc.spacy"
WNUT17 = Path("corpus/wnut17-test.spacy")
NEWSPAPERS = {
    name: Path(f"corpus/europeana_{name.lower()}-test.spacy") for name in ("LFT", "ONB", "SBB")
}
MEAN = "mean"  # Key of the means over the newspapers.
RUNNING = "running text"  # Key of the scores of sentences that are joined, without a change.
DAMAGED = "UD EWT test"
# Labels of OntoNotes and of WNUT17, and the three types.
TYPES = {label: label for label in ("PER", "LOC", "ORG")}
TYPES |= {"PERSON": "PER", "GPE": "LOC", "FAC": "LOC", "person": "PER", "location": "LOC"}
ONTONOTES = "GPE"  # An entity type that only OntoNotes has.
GENITIVE = ("'s", "\u2019s", "'")
NO_ORGANIZATIONS = {label: kind for label, kind in TYPES.items() if kind != "ORG"}
SCORERS = ("tagger", "morphologizer", "lemmatizer", "senter", "ner")
RELATION = "nsubj:pass"  # A relation of Universal Dependencies that no other scheme has.
DAMAGES = ("misspellings", "keyboard")
RATE = 0.1
QUICK = 20  # Number of Docs that the plan `quick` reads of each file.


def main(
    names: list[str] = typer.Argument(..., help="Names of the pipelines: training/NAME"),
    compared: Optional[Path] = typer.Option(
        None, help="Folder with other pipelines, installed by pip install --target", exists=True
    ),
    precision: list[str] = typer.Option(
        ["float32", "int8"], help="Precisions of `elmo` whose speed is measured"
    ),
    plan: str = typer.Option("full", help="full, or quick (some Docs of each file)"),
) -> None:
    """Evaluate the pipelines of all seeds. Write a JSON file for each to metrics/pipelines."""
    root, output, limit = FOLDERS[plan], METRICS[plan], QUICK if plan == "quick" else 0
    found = {
        f"{name}-{path.parent.name}": path
        for name in names
        for path in sorted((root / name).glob("seed-*/pipeline"))
    }
    if compared is not None:
        found |= {path.parent.name: path.parent for path in compared.glob("*/*/config.cfg")}
    for name, path in found.items():
        results = evaluate(path, limit)
        has_elmo = "elmo" in results["components"]
        blank = spacy.blank(results["lang"])
        texts = [doc.text for file in SERVED[blank.lang] for doc in read_docs(blank, file, limit)]
        results["serving"] = {
            one: serve(path, texts, one) for one in (precision if has_elmo else precision[:1])
        }
        output.mkdir(parents=True, exist_ok=True)
        atomic_write(output / f"{name}.json", srsly.json_dumps(results, indent=2) + "\n")
        msg.good(str(output / f"{name}.json"))


def evaluate(path: Path, limit: int) -> dict[str, Any]:
    """Return the scores and the size of a pipeline.

    path (Path): Folder of the pipeline.
    limit (int): Number of Docs to read of each file; 0: all.
    RETURNS (dict): "lang", "name", "version", "components", "megabytes" and "scores".
    """
    nlp = spacy.load(path)
    return {
        "lang": nlp.lang,
        "name": f"{nlp.lang}_{nlp.meta['name']}",
        "version": nlp.meta["version"],
        "components": list(nlp.pipe_names),
        "megabytes": size_of(path),
        "scores": SCORES[nlp.lang](nlp, limit),
    }


def web_scores(nlp: Language, limit: int) -> dict[str, Any]:
    """Return the scores of an English pipeline by corpus."""
    if any(ONTONOTES in labels for labels in nlp.pipe_labels.values()):
        nlp.add_pipe("project_bare_names")
    nlp.add_pipe("project_entity_types")
    scores: dict[str, Any] = {}
    for name, file in TEST.items():
        examples = read_examples(nlp, file, limit, sentences=True)
        scores[name] = {"gold": score(nlp, predict(nlp, examples))}
        scores[name]["raw"] = score(
            nlp, predict(nlp, read_examples(nlp, RAW[name], limit, raw=True))
        )
    scores["BTC dev"] = {"entities": entity_score(nlp, BTC, limit, TYPES)}
    scores["WNUT17 test"] = {"entities": entity_score(nlp, WNUT17, limit, NO_ORGANIZATIONS)}
    scores["damaged words"] = damaged_scores(nlp, read_examples(nlp, TEST[DAMAGED], limit))
    return scores


def newspaper_scores(nlp: Language, limit: int) -> dict[str, dict[str, float]]:
    """Return the entity F of a German pipeline by newspaper and damage, and the means."""
    scores = {
        name: damaged_entities(nlp, read_docs(nlp, file, limit))
        for name, file in NEWSPAPERS.items()
    }
    kinds = scores[next(iter(scores))]
    means = {kind: sum(one[kind] for one in scores.values()) / len(scores) for kind in kinds}
    return {**scores, MEAN: means}


def damaged_entities(nlp: Language, golds: list[Doc]) -> dict[str, float]:
    """Return the entity F of a pipeline on gold Docs, and on damaged copies of them.

    A tenth of the words gets OCR errors; all words get another letter case. The other copies join
    some sentences. Each has one of the changes that copies of the training data have, or none.
    """
    examples = [make_example(nlp, gold) for gold in golds]
    rows = [
        *measure_robustness(nlp, examples, ("ocr",), (0.0, RATE)),
        *measure_robustness(nlp, examples, ("case",), (1.0,)),
    ]
    found = {row["damage"] if row["rate"] else "clean": row["scores"]["ents_f"] for row in rows}
    groups = [golds[i : i + MAX_SENTENCES] for i in range(0, len(golds), MAX_SENTENCES)]
    for name in (RUNNING, *ARCHIVE_DAMAGES):
        if name != "capitals":  # The letter case "upper" is the same.
            rng = np.random.default_rng(0)
            copies = [damage(group, [name], rng) for group in groups]
            found[name] = nlp.evaluate([make_example(nlp, copy) for copy in copies])["ents_f"]
    return found


# Each language has a function that scores a pipeline, and files whose texts measure its speed.
SCORES = {"en": web_scores, "de": newspaper_scores}
SERVED = {"en": (RAW[DAMAGED],), "de": tuple(NEWSPAPERS.values())}


def entity_score(nlp: Language, file: Path, limit: int, types: Mapping[str, str]) -> float:
    """Return the entity F of a pipeline for some types, with the tokens of the corpus."""
    examples = predict(nlp, read_examples(nlp, file, limit))
    for example in examples:
        map_entities(example.predicted, types)
        map_entities(example.reference, types)
    score: float = run_scorer("ner", examples)["ents_f"]
    return score


@Language.component("project_bare_names")
def cut_names(doc: Doc) -> Doc:
    """Cut the article off the beginning of entities, and the genitive ending off their end."""
    ents = []
    for ent in doc.ents:
        start = ent.start + (len(ent) > 1 and ent[0].lower_ == "the")
        end = ent.end - (ent.end - start > 1 and ent[-1].lower_ in GENITIVE)
        ents.append(Span(doc, start, end, ent.label_))
    doc.ents = ents
    return doc


@Language.component("project_entity_types")
def project_entity_types(doc: Doc) -> Doc:
    """Map the entity types of a Doc to persons, places and organizations."""
    return map_entities(doc, TYPES)


def map_entities(doc: Doc, types: Mapping[str, str]) -> Doc:
    """Replace the labels of entities, and drop the entities of other labels."""
    doc.ents = [
        Span(doc, ent.start, ent.end, types[ent.label_]) for ent in doc.ents if ent.label_ in types
    ]
    return doc


def read_docs(nlp: Language, path: Path, limit: int) -> list[Doc]:
    """Return the gold Docs of a .spacy file."""
    return [example.reference for example in Corpus(path, limit=limit)(nlp)]


def read_examples(
    nlp: Language, path: Path, limit: int, *, raw: bool = False, sentences: bool = False
) -> list[Example]:
    """Return examples with unannotated predictions.

    nlp (Language): The pipeline, whose tokenizer reads raw text.
    path (Path): The .spacy file.
    limit (int): Number of Docs to read; 0: all.
    raw (bool): Whether the pipeline's tokenizer makes the tokens. Otherwise, they are gold.
    sentences (bool): Whether to mark each Doc as one sentence.
    RETURNS (List[Example]): The examples.
    """
    references = read_docs(nlp, path, limit)
    if raw:
        return [Example(nlp.make_doc(reference.text), reference) for reference in references]
    return [make_example(nlp, reference, sentences=sentences) for reference in references]


def make_example(nlp: Language, reference: Doc, *, sentences: bool = False) -> Example:
    """Return an example whose prediction has the gold tokens, and no annotation."""
    words = [token.text for token in reference]
    spaces = [bool(token.whitespace_) for token in reference]
    starts = [i == 0 for i in range(len(words))] if sentences else None
    return Example(Doc(nlp.vocab, words=words, spaces=spaces, sent_starts=starts), reference)


def predict(nlp: Language, examples: Iterable[Example]) -> list[Example]:
    """Return the examples with the pipeline's predictions."""
    examples = list(examples)
    docs = nlp.pipe([example.predicted for example in examples])
    return [Example(doc, example.reference) for doc, example in zip(docs, examples)]


def score(nlp: Language, examples: list[Example]) -> dict[str, Optional[float]]:
    """Return the scores of all annotation that the pipeline has in the scheme of the gold Docs."""
    found: dict[str, Any] = {}
    for name in SCORERS:
        found |= run_scorer(name, examples)
    lower = Scorer.score_token_attr(examples, "lemma", getter=lower_lemma)
    scores = {
        "xpos": found["tag_acc"],
        "upos": found["pos_acc"],
        "ufeats": found["morph_acc"] if "morphologizer" in nlp.pipe_names else None,
        "lemma": found["lemma_acc"],
        "lemma_lower": lower["lemma_acc"],
        "sentences": found["sents_f"],
        "entities": found["ents_f"],
    }
    if "parser" in nlp.pipe_names and RELATION in nlp.get_pipe("parser").labels:  # type: ignore[attr-defined]
        trees = Scorer.score_deps(examples, "dep", getter=relation)
        scores |= {"uas": trees["dep_uas"], "las": trees["dep_las"]}
    return scores


def run_scorer(name: str, examples: list[Example]) -> dict[str, Any]:
    """Return the scores of one of spaCy's scorers."""
    make_scorer = spacy.registry.scorers.get(f"spacy.{name}_scorer.v1")
    scores: dict[str, Any] = make_scorer()(examples)
    return scores


def lower_lemma(token: Token, attr: str) -> str:
    """Return the lemma in lower case."""
    return token.lemma_.lower()


def relation(token: Token, attr: str) -> str:
    """Return the dependency relation in lower case, as spaCy's scorer does."""
    return token.dep_.lower()


def damaged_scores(nlp: Language, examples: list[Example]) -> dict[str, dict[str, float]]:
    """Return trees' and entities' scores (spaCy's own) on damaged words, and on the clean words."""
    names = ["ents_f"]
    if "parser" in nlp.pipe_names and RELATION in nlp.get_pipe("parser").labels:  # type: ignore[attr-defined]
        names.append("dep_las")
    found = {}
    for row in measure_robustness(nlp, examples, DAMAGES, (0.0, RATE)):
        kind = row["damage"] if row["rate"] else "clean"
        found[kind] = {"damaged": row["damaged"], **{name: row["scores"][name] for name in names}}
    return found


def serve(pipeline: Path, texts: list[str], precision: str) -> dict[str, float]:
    """Measure the pipeline in a new process without PyTorch (see `serve.py`)."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "texts.json"
        path.write_text(json.dumps(texts), "utf8")
        command = [sys.executable, str(Path(__file__).with_name("serve.py"))]
        run = subprocess.run(
            [*command, str(pipeline), str(path), precision],
            capture_output=True,
            text=True,
            check=True,
        )
    measured: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    return measured


def size_of(folder: Path) -> float:
    """Return the size of a folder's files in megabytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


if __name__ == "__main__":
    typer.run(main)
