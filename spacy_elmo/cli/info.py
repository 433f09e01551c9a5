"""Command `python -m spacy elmo info`."""

import textwrap
from collections.abc import Iterator
from typing import Any, Optional

import srsly
import typer

from ..files.terminal import echo, one_line
from .options import AS_JSON, FORMAT, LANG
from .output import terminal_width

# Entries to print first. The text names the settings for which a user needs the value.
NEEDED = {
    "width": "a listener's `width`: 2 * projection_dim",
    "layers": "a mix's `n_layers`: the LSTM layers and the token layer",
}
INDENT = 2


def info_cli(
    model: str = typer.Argument(
        ...,
        help="A file, the folder of a model or pipeline, an https:// URL, or the name of a "
        "published model",
    ),
    audit: Optional[list[str]] = typer.Option(
        None,
        help="Count the tokens in this text (file, folder or glob) that are too long for the model",
    ),
    format: str = FORMAT,
    lang: Optional[str] = LANG,
    as_json: bool = AS_JSON,
) -> None:
    """Describe a language model.

    Print format, sizes, languages, provenance and checksums, and how this machine's CPU computes:
    the kernel, and the format that precision "auto" means. In a pipeline, only the language model
    is loaded. A published model is not downloaded, but a model at a URL is.

    Example: python -m spacy elmo info pretraining/model-best
    """
    from ..frozen.kernel import find_kernel, resolve_precision
    from ..weights.formats import describe

    description = describe(model)
    kernel = find_kernel()
    description["cpu"] = {"kernel": kernel.name, "auto": resolve_precision("auto", kernel)}
    if audit:
        description["audit"] = _audit(description, audit, format, lang)
    if as_json:
        print(srsly.json_dumps(description, indent=2))
        return
    needed = {
        name: f"{description[name]} ({why})" for name, why in NEEDED.items() if name in description
    }
    if "files" in description:
        description["files"] = {
            file["name"]: f"{file['bytes']:,} bytes, SHA-256 {file['sha256']}"
            for file in description["files"]
        }
    rows = list(_rows({**needed, **description, **needed}))
    column = INDENT + max(len(key) for key, value in rows if value is not None)
    for key, value in rows:
        for line in _lines(key, value or "", column, terminal_width()):
            echo(line)


def _audit(
    description: dict[str, Any], inputs: list[str], format: str, lang: Optional[str]
) -> dict[str, Any]:
    from ..model.config import BiLMConfig
    from ..text.size import audit_tokens

    if "sizes" not in description:
        raise ValueError(
            "the model is not in the cache. Download it: python -m spacy elmo download NAME"
        )
    sizes = BiLMConfig.from_dict(description["sizes"])
    lang = lang or next(iter(description["languages"]), None)
    return audit_tokens(sizes, inputs, format=format, lang=lang)


def _rows(content: dict[str, Any], indent: int = 0) -> Iterator[tuple[str, Optional[str]]]:
    """Yield the rows of a description: key and value as text.

    An inner object has a row with the value None. The rows of its entries follow, indented.
    """
    for key, value in content.items():
        shown = None if isinstance(value, dict) and value else one_line(_shown(value))
        yield " " * indent + one_line(key), shown
        if isinstance(value, dict):
            yield from _rows(value, indent + INDENT)


def _lines(key: str, value: str, column: int, width: int) -> list[str]:
    """Wrap a row of a description to lines of `width` characters.

    The value starts at `column`. If a word of the value is too long for this, such as a checksum,
    the value starts on the line below the key.
    """
    below = " " * (len(key) - len(key.lstrip()) + INDENT)
    first, others = key.ljust(column), " " * column
    if max(map(len, value.split()), default=0) > width - column:
        first = others = below
    wrap = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    wrap.initial_indent, wrap.subsequent_indent = first, others
    return [*([key] if first == below or not value else []), *wrap.wrap(value)]


def _shown(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, str):
        lines = value.splitlines() or [""]
        return value if len(lines) == 1 else f"{lines[0]} ... ({len(lines)} lines)"
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ", ".join(value) or "none"
    return srsly.json_dumps(value) if value not in (None, [], {}) else "none"
