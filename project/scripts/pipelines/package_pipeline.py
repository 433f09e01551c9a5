"""Folder of a pipeline with its card, from which `wheels/model.py` builds a wheel.

The best seed by the scores on the dev set is taken. The card is spaCy's own, from `meta.json`, and
has in addition the scores beside the compared pipelines, the training data, and the known limits.
"""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Optional

import spacy
import srsly
import typer
from spacy.cli.package import generate_readme
from spacy.language import Language
from wasabi import msg

from spacy_elmo.weights.pipeline_folder import spacy_versions

from .evaluate_pipelines import MEAN, METRICS, NEWSPAPERS, RUNNING, size_of
from .train_pipeline import BEST, CONFIGS, FOLDERS

WHEELS = Path("../wheels")
ATTRIBUTION = "LICENSES_SOURCES"
DATA = "training_data.json"
DAMAGED = ("scores", "damaged words")
COLUMNS = ("en_core_web_sm",)  # Beginning of the names of compared pipelines.
# Rows of the table, by language: title, and keys of the value in the JSON file.
WEB = (
    *(
        (f"{corpus}, {title}", ("scores", corpus, mode, key))
        for corpus in ("UD EWT test", "GUM dev")
        for title, mode, key in (
            ("tags (XPOS)", "gold", "xpos"),
            ("parts of speech (UPOS)", "gold", "upos"),
            ("features (UFeats)", "gold", "ufeats"),
            ("lemmas", "gold", "lemma"),
            ("lemmas, letter case ignored", "gold", "lemma_lower"),
            ("UAS", "gold", "uas"),
            ("LAS", "gold", "las"),
            ("sentence F, from raw text", "raw", "sentences"),
            ("LAS, from raw text", "raw", "las"),
        )
    ),
    ("UNER EWT test, entity F", ("scores", "UD EWT test", "gold", "entities")),
    (
        "Broad Twitter Corpus dev without mentions of users, entity F",
        ("scores", "BTC dev", "entities"),
    ),
    ("WNUT17 test, persons and places, entity F", ("scores", "WNUT17 test", "entities")),
    *(
        (f"EWT test, a tenth of the words with {damage}, {title}", (*DAMAGED, kind, key))
        for damage, kind in (("misspellings", "misspellings"), ("typing errors", "keyboard"))
        for title, key in (("entity F", "ents_f"), ("LAS without punctuation", "dep_las"))
    ),
)
ARCHIVES = (
    *((f"{name} test, entity F", ("scores", name, "clean")) for name in NEWSPAPERS),
    *(
        (f"mean of the newspapers{title}", ("scores", MEAN, kind))
        for title, kind in (
            ("", "clean"),
            (", a tenth of the words with OCR errors", "ocr"),
            (", all in lower case", "lower"),
            (", all in capitals", "upper"),
            (", running text", RUNNING),
            (", running text with long s", "long s"),
            (", running text with umlauts as ae, oe, ue", "ae, oe, ue"),
            (", running text with a small e above umlauts", "small e"),
            (", running text in lines, with cut words", "lines"),
            (", running text without sentence marks", "no sentence marks"),
        )
    ),
)
ROWS = {"en": WEB, "de": ARCHIVES}
SERVING = (
    ("words per second, float32", ("serving", "float32", "words_per_cpu_second"), "{:,.0f}"),
    ("words per second, int8", ("serving", "int8", "words_per_cpu_second"), "{:,.0f}"),
    ("memory after a sentence, MB", ("serving", "float32", "memory_after_first_doc_mb"), "{:,.0f}"),
    ("peak memory, MB", ("serving", "float32", "peak_memory_mb"), "{:,.0f}"),
    ("seconds to the first analysis", ("serving", "float32", "seconds_to_first_doc"), "{:.1f}"),
    ("folder, MB", ("megabytes",), "{:.1f}"),
)
# Scores in meta.json, by language: spaCy's name, and keys of the value.
WEB_PERFORMANCE = {
    "tag_acc": ("UD EWT test", "gold", "xpos"),
    "pos_acc": ("UD EWT test", "gold", "upos"),
    "morph_acc": ("UD EWT test", "gold", "ufeats"),
    "lemma_acc": ("UD EWT test", "gold", "lemma"),
    "dep_uas": ("UD EWT test", "gold", "uas"),
    "dep_las": ("UD EWT test", "gold", "las"),
    "sents_f": ("UD EWT test", "raw", "sentences"),
    "ents_f": ("UD EWT test", "gold", "entities"),
}
PERFORMANCE = {"en": WEB_PERFORMANCE, "de": {"ents_f": (MEAN, "clean")}}


def main(
    name: str = typer.Argument(..., help="Name of the pipeline"),
    plan: str = typer.Option("full", help="full, or quick"),
) -> None:
    """Write the folder of a pipeline: wheels/NAME, or training/quick/NAME/package for quick."""
    root = FOLDERS[plan] / name
    best = srsly.read_json(root / BEST)["best"]
    about = srsly.read_yaml(CONFIGS / f"{name}.yml")
    files = sorted(METRICS[plan].glob(f"{name.partition('_')[0]}_*.json"))
    results = {path.stem: srsly.read_json(path) for path in files}
    output = WHEELS / name if plan == "full" else root / "package"
    write_package(root / f"seed-{best}" / "pipeline", output, about, f"{name}-seed-{best}", results)
    msg.good(f"{output}, with the card README.md")


def write_package(
    pipeline: Path,
    output: Path,
    about: Mapping[str, Any],
    own: str,
    results: Mapping[str, Mapping[str, Any]],
) -> None:
    """Write the folder of a pipeline with meta.json, card, attribution and data.

    pipeline (Path): Folder of the pipeline.
    output (Path): Folder to write. An earlier output of this function is replaced.
    about (Dict[str, Any]): "description", "version", "license", "license_notes", "author",
        "sources", "limits", "example" (a text) and "measured" (on what machine).
    own (str): Key of the pipeline's own results.
    results (Dict[str, Dict[str, Any]]): The results of all pipelines, by name.
    RAISES (ValueError): The output is another folder.
    """
    if output.exists() and not (output / DATA).is_file():
        raise ValueError(f"{output} is not a folder that this script has written. Move it away.")
    shutil.rmtree(output, ignore_errors=True)
    nlp = spacy.load(pipeline)
    for key in ("description", "version", "license", "author"):
        nlp.meta[key] = about[key]
    nlp.meta["spacy_version"] = spacy_versions()
    scores = results[own]["scores"]
    nlp.meta["sources"] = [
        {key: source[key] for key in ("name", "url", "license", "author")}
        for source in about["sources"]
    ]
    nlp.meta["performance"] = {
        name: value_at(scores, keys) for name, keys in PERFORMANCE[nlp.lang].items()
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    nlp.to_disk(output)
    attribution = output / ATTRIBUTION
    texts = attribution.read_text("utf8") if attribution.is_file() else ""
    attribution.write_text(f"{data_section(about)}\n{texts}", "utf8")
    srsly.write_json(output / DATA, about["sources"])
    results = {**results, own: {**results[own], "megabytes": size_of(output)}}
    sections = (
        generate_readme(nlp.meta).rstrip(),
        "### Use",
        example(nlp, about["example"]),
        "### Compared",
        comparison(own, results, ROWS[nlp.lang]),
        about["measured"],
        "### License",
        about["license_notes"],
        data_section(about).rstrip(),
        "### Known limits",
        "\n".join(f"* {limit}" for limit in about["limits"]),
    )
    (output / "README.md").write_text("\n\n".join(sections) + "\n", "utf8")


def example(nlp: Language, text: str) -> str:
    """Return code that finds the entities of a text, and its output, in Markdown."""
    name = f"{nlp.lang}_{nlp.meta['name']}"
    found = "\n".join(f"{ent.text}: {ent.label_}" for ent in nlp(text).ents)
    return f"""```python
import spacy

nlp = spacy.load("{name}")
doc = nlp("{text}")
for ent in doc.ents:
    print(f"{{ent.text}}: {{ent.label_}}")
```

```text
{found}
```"""


def value_at(values: Any, keys: tuple[str, ...]) -> Any:
    """Return the value under some keys of nested dicts; None if there is none."""
    for key in keys:
        values = values.get(key) if isinstance(values, Mapping) else None
    return values


def comparison(
    own: str,
    results: Mapping[str, Mapping[str, Any]],
    rows: Iterable[tuple[str, tuple[str, ...]]],
) -> str:
    """Return the table of a pipeline's results beside those of others, in Markdown."""
    without = own.replace("_elmo_", "_", 1)
    names = {"this pipeline": own, "without ELMo": without}
    names |= {
        next(n for n in COLUMNS if one.startswith(n)): one
        for one in results
        if one.startswith(COLUMNS)
    }
    names = {title: name for title, name in names.items() if name in results}
    lines = ["| | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    for title, keys, form in (*((*row, None) for row in rows), *SERVING):
        cells = [show(value_at(results[name], keys), form) for name in names.values()]
        if any(cell != "-" for cell in cells):
            lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def show(value: Optional[float], form: Optional[str]) -> str:
    """Return a value as text, or "-" for None. Without a format, the value is a share."""
    if value is None:
        return "-"
    return form.format(value) if form else f"{100 * value:.1f}"


def data_section(about: Mapping[str, Any]) -> str:
    """Return the list of the training data with licenses and versions, in Markdown."""
    lines = ["### Training data", ""]
    for source in about["sources"]:
        where = f" {source['url']}" if source["url"] else ""
        lines.append(
            f"* {source['name']}, {source['license']}. {source['author']}. Version: "
            f"{source['version']}.{where}"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    typer.run(main)
