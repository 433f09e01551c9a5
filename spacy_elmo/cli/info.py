"""`python -m spacy elmo info`"""

from collections.abc import Iterator
from typing import Any

import srsly
import typer
from wasabi import msg


def info_cli(
    model: str = typer.Argument(
        ...,
        help="A file, the folder of a model or pipeline, an https:// URL, or a published "
        "model's name",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON in place of a table"),
) -> None:
    """Describe a language model: format, sizes, parameters, languages, provenance and
    checksums. Of a pipeline, no other component is loaded; a published model is not
    downloaded, what a URL means is.

    Example: python -m spacy elmo info pretraining/model-best
    """
    from ..weights.describe import describe

    description = describe(model)
    if as_json:
        print(srsly.json_dumps(description, indent=2))
        return
    rows = list(_rows(description))
    msg.table(rows, widths=[max(len(row[i]) for row in rows) for i in range(2)])


def _rows(value: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """A row an entry; those of inner objects by their whole name."""
    for key, inner in value.items():
        if isinstance(inner, dict):
            yield from _rows(inner, f"{prefix}{key}.")
        elif key == "files":
            for file in inner:
                yield file["name"], f"{file['bytes']:,} bytes, SHA-256 {file['sha256']}"
        else:
            yield f"{prefix}{key}", _shown(inner)


def _shown(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, str):
        lines = value.splitlines() or [""]
        return value if len(lines) == 1 else f"{lines[0]} ... ({len(lines)} lines)"
    return srsly.json_dumps(value) if value not in (None, []) else "none"
