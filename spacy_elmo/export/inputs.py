"""The input, whatever its format, as a stream of entries."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Optional

from ..text.reading import READABLE, Inputs, find_files, is_jsonl
from .columns_input import read_conll, read_tsv
from .conllu_input import read_conllu
from .entries import Entry
from .making import DocMaker
from .spacy_input import read_docbin
from .text_input import read_records, read_text
from .workplace import Workplace

CONLLU, DOCBIN = (".conllu", ".conllu.gz"), ".spacy"
CONLL, TSV = (".conll", ".conll.gz"), (".tsv", ".tsv.gz")
INPUTS = (*READABLE, *CONLLU, *CONLL, DOCBIN)


def find_inputs(inputs: Inputs, output: Path, column: Optional[str] = None) -> list[Path]:
    """Find the files to read.

    inputs (Union[str, Path, Iterable[Union[str, Path]]]): Files, folders or globs.
    output (Path): What is in it, or in `OUTPUT.part`, is no input.
    column (Optional[str]): What is to be read of `.tsv` files, which are no input without.
    RETURNS (List[Path]): The files, each once.
    RAISES (ValueError): One is missing, or of an unknown format, or there is none with columns.
    """
    given = [inputs] if isinstance(inputs, (str, Path)) else list(inputs)
    if column is None and (tables := [name for name in given if str(name).endswith(TSV)]):
        raise ValueError(f"{tables[0]}: which column holds the text? --column NAME or NUMBER")
    ours = {output.resolve(), Workplace(output).folder.resolve()}
    files = dict.fromkeys(find_files(given, INPUTS if column is None else (*INPUTS, *TSV)))
    if column is not None and not any(file.name.endswith((*TSV, *CONLL)) for file in files):
        raise ValueError(f"--column {column}: no {', '.join((*TSV, *CONLL))} file is given")
    return [file for file in files if ours.isdisjoint([file.resolve(), *file.resolve().parents])]


def read_entries(
    files: Sequence[Path],
    maker: DocMaker,
    *,
    tokenize: bool,
    column: Optional[str],
    max_tokens: int,
    progress: Callable[[int], object],
) -> Iterator[Entry]:
    """Read the entries of files: of `.txt`, `.conllu` and `.conll` a sentence, of `.jsonl` and
    `.tsv` a line, of `.spacy` a Doc.

    files (Sequence[Path]): What `find_inputs` found.
    maker (DocMaker): Makes Docs of text.
    tokenize (bool): Whether text files hold running text, rather than a sentence a
        line, its tokens separated by spaces.
    column (Optional[str]): Column of `.tsv` and `.conll` files: its name, or number from 1.
    max_tokens (int): Most tokens of an entry.
    progress (Callable[[int], object]): Told how many bytes more were read.
    YIELDS (Entry): An entry.
    RAISES (ValueError): A file cannot be read, or an entry is too long.
    """
    for file in files:
        if file.name.endswith(DOCBIN):
            entries = read_docbin(file, maker, progress)
        elif file.name.endswith(CONLLU):
            entries = read_conllu(file, progress)
        elif file.name.endswith(CONLL):
            entries = read_conll(file, column, progress)
        elif file.name.endswith(TSV) and column is not None:
            entries = read_tsv(file, column, maker, progress, tokenize=tokenize)
        elif is_jsonl(file):
            entries = read_records(file, maker, progress)
        else:
            entries = read_text(file, maker if tokenize else None, progress)
        for number, entry in enumerate(entries):
            if len(entry) > max_tokens:
                raise ValueError(
                    f"{file}: a sentence or Doc has {len(entry):,} tokens (number {number}, from "
                    f"0; it starts with '{entry.text[:60]}'), and its vectors have to fit into "
                    f"memory. Split it, or allow more: --max-tokens {len(entry)}"
                )
            yield entry
