"""Pretraining of the NER's `tok2vec` with `spacy pretrain`, as a comparison with ELMo.

It gets the same processor time as the language model.
"""

import time
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path

import spacy
import typer
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training.pretrain import pretrain

from spacy_elmo.cli.errors import no_traceback
from spacy_elmo.text.reading import find_files, read_sentences

from .run_trial import use_processor
from .trial_config import Inputs, build_config, pretraining_block
from .trials import Trial

READER = "spacy-elmo-project.sentences.v1"


@spacy.registry.readers(READER)
def read_for(
    path: Path, minutes: float, format: str, lang: str
) -> Callable[[Language], Iterator[Doc]]:
    """Create a corpus that repeats the sentences of a text until the processor time is over.

    path (Path): A file, folder or glob.
    minutes (float): Processor time in minutes.
    format (str): "sentences" or "text".
    lang (str): Language of the tokenizer for "text".
    RETURNS (Callable): The corpus: a function from `nlp` to Docs.
    """

    def read(nlp: Language) -> Iterator[Doc]:
        end = time.process_time() + 60 * minutes
        for files in repeat(find_files([str(path)])):
            for tokens in read_sentences(files, format=format, lang=lang):
                if time.process_time() > end:
                    return
                if tokens:
                    yield Doc(nlp.vocab, words=tokens)

    return read


def main(
    text: Path = typer.Argument(..., help="Text files: a file, folder or glob"),
    output: Path = typer.Argument(..., help="Output folder of model0.bin"),
    format: str = typer.Option(
        "sentences", help="'sentences' (one per line, tokens separated by spaces) or 'text'"
    ),
    lang: str = typer.Option("en", help="Language of spaCy's tokenizer for running text"),
    minutes: float = typer.Option(120.0, help="Processor time in minutes"),
    gpu_id: int = typer.Option(-1, help="GPU to use; -1 for the CPU"),
) -> None:
    """Pretrain with spaCy's default objective: the first and last characters of each word."""
    with no_traceback():
        find_files([str(text)])
        trial = Trial("two_hours", "wnut17", "pretrained")
        config = build_config(trial, Path(), Path(), Inputs(), {})
        config["pretraining"] = pretraining_block()
        how = {"minutes": minutes, "format": format, "lang": lang}
        config["corpora"]["pretrain"] = {"@readers": READER, "path": str(text), **how}
        use_processor(gpu_id)  # Call this before mkdir: a missing GPU leaves no folder.
        output.mkdir(parents=True, exist_ok=True)
        pretrain(config.interpolate(), output, use_gpu=gpu_id, silent=False, skip_last=True)


if __name__ == "__main__":
    typer.run(main)
