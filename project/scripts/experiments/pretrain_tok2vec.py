"""This script pretrains the `tok2vec` of the NER without ELMo by `spacy pretrain`, for the same
processor time as a language model that it is compared with."""

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
    """Read the sentences of a text, again and again, for some minutes of processor time."""

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
    output: Path = typer.Argument(..., help="Folder to write model0.bin to"),
    format: str = typer.Option(
        "sentences", help="'sentences' (one a line, tokens separated by spaces) or 'text'"
    ),
    lang: str = typer.Option("en", help="Language of spaCy's tokenizer for running text"),
    minutes: float = typer.Option(120.0, help="Processor time"),
    gpu_id: int = typer.Option(-1, help="Number of the GPU; -1 is the processor"),
) -> None:
    """Pretrain with spaCy's defaults: the first and last characters of each word are predicted."""
    with no_traceback():
        find_files([str(text)])
        trial = Trial("two_hours", "wnut17", "pretrained")
        config = build_config(trial, Path(), Path(), Inputs(), {})
        config["pretraining"] = pretraining_block()
        how = {"minutes": minutes, "format": format, "lang": lang}
        config["corpora"]["pretrain"] = {"@readers": READER, "path": str(text), **how}
        use_processor(gpu_id)  # fails before a folder is made
        output.mkdir(parents=True, exist_ok=True)
        pretrain(config.interpolate(), output, use_gpu=gpu_id, silent=False, skip_last=True)


if __name__ == "__main__":
    typer.run(main)
