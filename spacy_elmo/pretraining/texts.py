"""Training text and held-out text of a run."""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Optional, Union

from ..files import user_path
from ..files.remote import is_url
from ..language_model.processes import Processes
from ..text.corpus import Corpus, read_corpus
from ..text.prepare import is_prepared, open_corpus, prepare
from ..text.reading import find_files, read_sentences
from ..text.settings import PrepareSettings
from .config import CorpusSettings, Inputs, PretrainingConfig

SMALL = 20_000_000  # Bytes. For less text, starting several processes takes longer than it saves.


class InputText:
    """Training text or held-out text of a run: a prepared corpus, or text files.

    It is found at the first use, and only once, because each search of a folder can warn about
    files that are left out.

    inputs (Union[str, List[str]]): The setting `train` or `dev`.
    """

    def __init__(self, inputs: Inputs):
        self.inputs = [inputs] if isinstance(inputs, str) else inputs

    def __str__(self) -> str:
        """Return the inputs, for error messages."""
        return ", ".join(self.inputs)

    @cached_property
    def prepared(self) -> Optional[Union[str, Path]]:
        """Folder or URL of the prepared corpus; None for text files, or for several inputs.

        RAISES (ValueError): The manifest or the URL cannot be read.
        """
        if len(self.inputs) > 1:
            return None
        given = self.inputs[0]
        if is_url(given):
            return given
        return user_path(given) if is_prepared(given) else None

    @cached_property
    def files(self) -> list[Path]:
        """Text files.

        RAISES (ValueError): An input has no text file, or is one of several prepared corpora.
        """
        return find_files(self.inputs)

    def read(self, config: PretrainingConfig) -> Iterator[list[str]]:
        """Read the sentences of the text files, one at a time.

        RAISES (ValueError): A file cannot be read.
        """
        return read_sentences(self.files, format=config.corpus.format, lang=config.lang)


class InputTexts:
    """Training text and held-out text of a run.

    settings (CorpusSettings): The settings in `[corpus]`.
    """

    def __init__(self, settings: CorpusSettings):
        self.train, self.dev = InputText(settings.train), InputText(settings.dev)


def open_texts(
    config: PretrainingConfig, texts: InputTexts, output: Path, processes: Processes
) -> tuple[Corpus, Corpus]:
    """Open the training text and the held-out text.

    If the training text is not a prepared corpus, the first process prepares it in `output`. If the
    held-out text is not a prepared corpus, each process reads it into memory.

    config (PretrainingConfig): The settings of the run.
    texts (InputTexts): The texts.
    output (Path): Folder of the run.
    processes (Processes): The processes of the run. All must call this.
    RETURNS (Tuple[Corpus, Corpus]): The training text and the held-out text.
    RAISES (ValueError): A text cannot be read.
    """
    settings = config.corpus
    folder = texts.train.prepared
    if folder is None:
        folder = output / "corpus"
        if processes.is_first:
            size = sum(file.stat().st_size for file in texts.train.files)
            prepare(
                texts.train.files,
                folder,
                PrepareSettings(
                    format=settings.format,
                    lang=config.lang,
                    **config.vocabulary.model_dump(),
                    n_process=1 if size < SMALL else -1,
                    on_error=settings.on_error,
                    ignore=output,
                ),
            )
    dev = texts.dev
    for prepared in (folder, dev.prepared) if processes.is_first else ():
        if prepared is not None:
            open_corpus(prepared, verify=True)
    processes.wait()
    train = open_corpus(folder)
    if dev.prepared is not None:
        return train, open_corpus(dev.prepared)
    return train, read_corpus(dev.read(config), str(dev))
