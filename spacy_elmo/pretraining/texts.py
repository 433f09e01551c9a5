"""Training text and held-out text of a run."""

from pathlib import Path
from typing import Optional, Union

from ..files import user_path
from ..files.remote import is_url
from ..language_model.processes import Processes
from ..text.corpus import Corpus, load_text
from ..text.prepare import is_prepared, open_corpus, prepare
from ..text.reading import find_files
from ..text.settings import PrepareSettings
from .config import Inputs, PretrainingConfig

SMALL = 20_000_000  # Bytes. For less text, starting several processes takes longer than it saves.


def open_texts(
    config: PretrainingConfig, output: Path, processes: Processes
) -> tuple[Corpus, Corpus]:
    """Open the training text and the held-out text.

    If the training text is not a prepared corpus, the first process prepares it in `output`. If the
    held-out text is not a prepared corpus, each process reads it into memory.

    config (PretrainingConfig): The settings of the run.
    output (Path): Folder of the run.
    processes (Processes): The processes of the run. All must call this.
    RETURNS (Tuple[Corpus, Corpus]): The training text and the held-out text.
    RAISES (ValueError): A text cannot be read.
    """
    settings = config.corpus
    folder = find_prepared(settings.train)
    if folder is None:
        folder = output / "corpus"
        if processes.is_first:
            files = find_files(settings.train)
            size = sum(file.stat().st_size for file in files)
            prepare(
                files,
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
    dev = find_prepared(settings.dev)
    for prepared in (folder, dev) if processes.is_first else ():
        if prepared is not None:
            open_corpus(prepared, verify=True)
    processes.wait()
    train = open_corpus(folder)
    if dev is not None:
        return train, open_corpus(dev)
    return train, load_text(settings.dev, format=settings.format, lang=config.lang)


def find_prepared(inputs: Inputs) -> Optional[Union[str, Path]]:
    """Return the folder or URL of `inputs` if it is a prepared corpus; None for text files.

    With several inputs, the result is None. `find_files` then refuses a prepared corpus.
    """
    given = [inputs] if isinstance(inputs, str) else inputs
    if len(given) > 1:
        return None
    if is_url(given[0]):
        return given[0]
    return user_path(given[0]) if is_prepared(given[0]) else None
