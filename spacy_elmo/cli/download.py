"""Command `python -m spacy elmo download`."""

from typing import Optional

import typer

from ..files.terminal import msg
from .errors import stopped
from .output import print_table


def download_cli(
    names: Optional[list[str]] = typer.Argument(
        None, help="Names of published models, or https:// URLs"
    ),
    show: bool = typer.Option(False, "--list", help="List all models, and those in the cache"),
    force: bool = typer.Option(
        False, "--force", "-F", help="Download again even if a model is in the cache"
    ),
) -> None:
    """Download published models into the cache.

    The cache is the folder in SPACY_ELMO_CACHE, or ~/.cache/spacy-elmo. If a download is
    interrupted, run the command again: it resumes. Files in the cache are checked without the
    network. If a download fails, the exit code is 4.

    Example: python -m spacy elmo download small manylangs-fr
    """
    from ..weights.named import get_named, obtain

    if show:
        _print_list()
        return
    if not names:
        raise ValueError("no model is given. Give a name; --list prints all names")
    for model in [get_named(name) for name in names]:
        if model.is_cached and not force:
            from ..weights.download import check

            for file, path in zip(model.files, model.paths):
                check(file, path)
        with stopped("Stopped. To resume, run the same command again"):
            path = obtain(model, force=force)
        msg.good(f"{model.name}: {path}", f"License: {model.licence or 'unknown'}")


def _print_list() -> None:
    from ..weights.named import BUNDLED, NAMED, cache_folder, locate

    weights = locate(BUNDLED)
    files = weights.parent.glob(f"{weights.stem}*.safetensors")  # Weights and softmax.
    bundled = sum(file.stat().st_size for file in files)
    own = (BUNDLED, "en", "safetensors", f"{bundled / 1e6:.0f} MB", "package")
    rows = [(*own, "en_small-ATTRIBUTION.md")]
    for model in NAMED.values():
        size = f"{model.size / 1e6:,.0f} MB" if model.size else ""
        cached = "yes" if model.is_cached else ""
        rows.append((model.name, model.lang, model.format, size, cached, model.licence))
    print_table(rows, ("name", "lang", "format", "size", "cached", "license"), ("l", "l", "l", "r"))
    msg.info(f"The cache is {cache_folder()}. Sizes that are not known are omitted")
