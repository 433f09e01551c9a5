"""Settings of `prepare`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

from .reading import check_text_format
from .workers import n_processes, parse_worker

CHUNK_SIZE = 1 << 22  # Bytes of text per chunk.


@dataclass(frozen=True)
class PrepareSettings:
    """Settings that say how `prepare` reads text and writes a corpus.

    format (str): Format of text files. 'sentences': one sentence per line, tokens separated by
        spaces. 'text': running text that spaCy splits.
    input_format (Optional[str]): Format of files whose suffix names none: 'txt' or 'jsonl'.
    lang (Optional[str]): Language of spaCy's tokenizer for running text.
    min_count (int): Minimum count of a word in the vocabulary.
    max_size (int): Maximum number of words in the vocabulary, including the special words.
    max_sentence (int): Maximum number of tokens in a sentence. Longer sentences count as
        unreadable.
    on_error (str): What to do with unreadable text. 'skip': warn, and list it in the manifest.
        'refuse': raise an error.
    n_process (int): Number of processes that read; -1 for one per core.
    worker (Optional[str]): "K/N" for the K-th of N calls, on one or several machines. Each call
        reads its share of the text. Then a call without `worker` reads missing shares and writes
        the corpus.
    chunk_size (int): Bytes of text that a process reads at a time.
    ignore (Optional[Path]): Another folder, in addition to the output, whose files are not read.
    RAISES (ValueError): A setting is invalid.
    """

    format: str = "sentences"
    input_format: Optional[str] = None
    lang: Optional[str] = None
    min_count: int = 2
    max_size: int = 30_000
    max_sentence: int = 10_000
    on_error: str = "skip"
    n_process: int = -1
    worker: Optional[str] = None
    chunk_size: int = CHUNK_SIZE
    ignore: Optional[Path] = None

    def __post_init__(self) -> None:
        check_text_format(self.format, self.lang)
        for name, minimum in (("min_count", 1), ("max_size", 4), ("max_sentence", 1)):
            value = getattr(self, name)
            if value < minimum:
                raise ValueError(f"{name} must be {minimum} or more, got {value}")
        if self.on_error not in ("skip", "refuse"):
            raise ValueError(f"on_error must be 'skip' or 'refuse', got '{self.on_error}'")
        n_processes(self.n_process)
        parse_worker(self.worker)

    def describe(self) -> dict[str, Any]:
        """Return the settings that change the corpus, for its manifest."""
        names = ("format", "input_format", "lang", "min_count", "max_size", "on_error")
        return {name: getattr(self, name) for name in (*names, "max_sentence")}
