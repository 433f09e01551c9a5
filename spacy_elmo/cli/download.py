"""`python -m spacy elmo download`"""

from typing import Optional

import typer

from ..files.terminal import msg
from .errors import stopped
from .output import print_table


def download_cli(
    names: Optional[list[str]] = typer.Argument(
        None, help="Names of published models, or https:// URLs"
    ),
    show: bool = typer.Option(False, "--list", help="Print the names, and what is in the cache"),
    force: bool = typer.Option(False, "--force", "-F", help="Download again what is there"),
) -> None:
    """Download published models into the cache: the folder that SPACY_ELMO_CACHE names, or
    ~/.cache/spacy-elmo. An interrupted download resumes when it is run again. Files that
    are there are checked, without the network. A download that fails has the exit code 4.

    Example: python -m spacy elmo download small manylangs-fr
    """
    from ..weights.named import get_named, obtain

    if show:
        _print_list()
        return
    if not names:
        raise ValueError("give the name of a model; --list shows all")
    for model in [get_named(name) for name in names]:
        if model.is_cached and not force:
            from ..weights.download import check

            for file, path in zip(model.files, model.paths):
                check(file, path)
        with stopped("Stopped. To resume, run the same command again"):
            path = obtain(model, force=force)
        msg.good(f"{model.name}: {path}", f"Licence: {model.licence or 'unknown'}")


def _print_list() -> None:
    from ..weights.named import BUNDLED, NAMED, cache_folder, locate

    weights = locate(BUNDLED)
    files = weights.parent.glob(f"{weights.stem}*.safetensors")  # the softmax, too
    bundled = sum(file.stat().st_size for file in files)
    own = (BUNDLED, "en", "safetensors", f"{bundled / 1e6:.0f} MB", "package")
    rows = [(*own, "en_small-ATTRIBUTION.md")]
    for model in NAMED.values():
        size = model.size  # of what is in the cache, or what is known
        shown = f"{size / 1e6:,.0f} MB" if size else ""
        cached = "yes" if model.is_cached else ""
        rows.append((model.name, model.lang, model.format, shown, cached, model.licence))
    print_table(rows, ("name", "lang", "format", "size", "cached", "licence"), ("l", "l", "l", "r"))
    msg.info(f"The cache is {cache_folder()}. Sizes that the servers do not tell are left out")
