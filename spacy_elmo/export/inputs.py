"""The input, whatever its format, as a stream of entries."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ..text.reading import READABLE, Inputs, find_files, is_jsonl
from .conllu_input import read_conllu
from .entries import Entry
from .making import DocMaker
from .spacy_input import read_docbin
from .text_input import read_records, read_text
from .workplace import Workplace

CONLLU, DOCBIN = (".conllu", ".conllu.gz"), ".spacy"
INPUTS = (*READABLE, *CONLLU, DOCBIN)


def find_inputs(inputs: Inputs, output: Path) -> list[Path]:
    """Find the files to read.

    inputs (Union[str, Path, Iterable[Union[str, Path]]]): Files, folders or globs.
    output (Path): What is in it, or in `OUTPUT.part`, is no input.
    RETURNS (List[Path]): The files, each once.
    RAISES (ValueError): One is missing, or of an unknown format.
    """
    ours = {output.resolve(), Workplace(output).folder.resolve()}
    files = dict.fromkeys(find_files(inputs, INPUTS))
    return [file for file in files if ours.isdisjoint([file.resolve(), *file.resolve().parents])]


def read_entries(
    files: Sequence[Path],
    maker: DocMaker,
    *,
    tokenize: bool,
    max_tokens: int,
    progress: Callable[[int], object],
) -> Iterator[Entry]:
    """Read the entries of files: of `.txt` and `.conllu` a sentence, of `.jsonl` a line,
    of `.spacy` a Doc.

    files (Sequence[Path]): What `find_inputs` found.
    maker (DocMaker): Makes Docs of text.
    tokenize (bool): Whether text files hold running text, rather than a sentence a
        line, its tokens separated by spaces.
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
