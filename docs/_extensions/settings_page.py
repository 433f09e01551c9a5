"""Write the tables of docs/settings.md from signatures, docstrings and schemas.

    python docs/_extensions/settings_page.py

Pydantic schemas have no docstring for each field: write their descriptions in the page.
"""

import inspect
import re
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from spacy_elmo import architectures as built
from spacy_elmo.embedding import features, features_file, segmenters
from spacy_elmo.embedding.settings import ElmoSettings
from spacy_elmo.model.config import BiLMConfig
from spacy_elmo.pipeline.elmo import DEFAULTS
from spacy_elmo.pretraining import config
from spacy_elmo.weights import readers

PAGE = Path(__file__).parents[1] / "settings.md"
SOURCES: dict[str, Any] = {
    "elmo": ElmoSettings,
    "spacy-elmo.ElmoListener.v1": built.build_listener,
    "spacy-elmo.ScalarMix.v1": built.build_scalar_mix,
    "spacy-elmo.ConcatEmbed.v1": built.build_concat_embed,
    "spacy-elmo.OutputConcat.v1": built.build_output_concat,
    "spacy-elmo.sentences.v2": segmenters.make_sentences_or_windows,
    "spacy-elmo.spans.v1": segmenters.make_spans,
    "spacy-elmo.memory.v1": features.make_memory,
    "spacy-elmo.disk.v1": features_file.make_disk,
    "spacy-elmo.allennlp.v1": readers.make_allennlp_reader,
    "model": BiLMConfig,
    "pretraining": config.InitSettings,
    "corpus": config.CorpusSettings,
    "vocabulary": config.VocabularySettings,
    "training": config.TrainingSettings,
    "training.advanced": config.AdvancedSettings,
}
TABLE = re.compile(r"(<!-- settings:(\S+) -->\n)(.*?)(<!-- /settings -->)", re.DOTALL)
ROW = re.compile(r"^\| `(\w+)` \| .* \| (.*?) \|$", re.MULTILINE)
ARGUMENT = re.compile(r"^(\w+) \((.+?)\): (.*(?:\n +.*)*)", re.MULTILINE)


def table(name: str, source: Any, before: str) -> str:
    """Return the rows of a source: name, type, default, description."""
    if isinstance(source, type) and issubclass(source, BaseModel):
        kept = dict(ROW.findall(before))
        rows = [
            (key, _kind(field.annotation), field.default, kept.get(key, ""))
            for key, field in source.model_fields.items()
            if key != "advanced"  # a block with a table of its own
        ]
    else:
        defaults = {key: one.default for key, one in inspect.signature(source).parameters.items()}
        if name == "elmo":
            defaults = {key: DEFAULTS[key] for key in defaults}
        rows = [
            (key, kind, defaults[key], " ".join(said.split()))
            for key, kind, said in ARGUMENT.findall(inspect.getdoc(source) or "")
            if key in defaults
        ]
        missing = set(defaults) - {row[0] for row in rows}
        assert not missing, f"{name}: the docstring does not describe {sorted(missing)}"
    lines = ["| setting | type | default | description |", "|---|---|---|---|"]
    for key, kind, value, said in rows:
        said = re.sub(r"(?<!\\)\|", r"\\|", said)  # a bar would end the cell
        lines.append(f"| `{key}` | `{kind}` | {_default(value)} | {said} |")
    return "\n".join([*lines, ""])


def _kind(annotation: Any) -> str:
    """Return a type in words: the form of `str` differs between versions of Python."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if origin in (Union, UnionType):
        return " or ".join(map(_kind, inner))
    if origin is Annotated:
        return _kind(inner[0])
    if origin is list:
        return f"list[{_kind(inner[0])}]"
    plain = annotation.__name__ if isinstance(annotation, type) and not inner else str(annotation)
    return plain.replace("typing.", "").replace("NoneType", "None")


def _default(value: Any) -> str:
    if repr(value) in ("<class 'inspect._empty'>", "PydanticUndefined"):
        return "required"
    if isinstance(value, dict):
        value = next(iter(value.values()))
    return f"`{value!r}`"


def fill(page: str) -> str:
    """Return the page with all tables renewed."""
    return TABLE.sub(lambda m: m[1] + table(m[2], SOURCES[m[2]], m[3]) + m[4], page)


if __name__ == "__main__":
    PAGE.write_text(fill(PAGE.read_text("utf8")), "utf8")
