"""Command `python -m spacy elmo extract`."""

import typer

from ..files import full_disk
from ..files.terminal import msg
from .errors import CommandLineError


def extract_cli(
    inputs: list[str] = typer.Argument(
        ..., help="TEI files (.xml) and text files (.txt): files, folders or globs"
    ),
    output: str = typer.Argument(..., help="Folder to write, with a .txt file for each input"),
    include: list[str] = typer.Option(
        [], help="TEI element to read that is skipped by default, such as head; can be repeated"
    ),
    exclude: list[str] = typer.Option([], help="TEI element to skip, too; can be repeated"),
) -> None:
    """Write the running text of TEI files, and join words that are cut at line ends.

    The text itself shows how a word is written, so this works in any language.

    Example: python -m spacy elmo extract tei/ my_text
    """
    from ..text.extract import extract
    from ..text.line_ends import APART, HYPHENATED, JOINED
    from ..text.tei import LEFT_OUT

    if unknown := sorted({*include} - LEFT_OUT):
        raise CommandLineError(
            f"`include`: '{unknown[0]}' is not skipped. Use one of {', '.join(sorted(LEFT_OUT))}"
        )
    with full_disk(output, "run the same command again"):
        written, n_found = extract(inputs, output, (LEFT_OUT - {*include}) | {*exclude})
    msg.good(
        f"Wrote {output}: {len(written):,} files",
        f"Words cut at line ends: {n_found[JOINED]:,} joined, {n_found[HYPHENATED]:,} joined with "
        f"their hyphen, {n_found[APART]:,} left as they are",
    )
