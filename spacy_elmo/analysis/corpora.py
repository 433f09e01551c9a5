"""Readers of Docs from a corpus, in constant memory."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Optional

from spacy.tokens import Doc
from spacy.training.corpus import FILE_TYPE, walk_corpus
from spacy.vocab import Vocab
from thinc.types import Floats3d

from ..embedding.embed import by_tokens
from ..files import check_regular, progress_bar, user_path
from ..files.inputs import read_docbin
from ..pipeline.elmo import Elmo
from ..text.reading import find_files, read_sentences
from ..text.size import estimate_tokens

# A vocab never forgets a string. With this number of strings, it is replaced by a new vocab.
MAX_STRINGS = 100_000
DOCS_AT_A_TIME = 128
TOKENS_AT_A_TIME = 16_384


def read_annotated_docs(path: Path, vocab: Vocab) -> Iterator[Doc]:
    """Read the Docs of a .spacy file, or of all such files in a folder.

    path (Path): The file or folder.
    vocab (Vocab): The vocab of the Docs.
    YIELDS (Doc): A Doc.
    RAISES (ValueError): The corpus is missing, or cannot be read.
    """
    path = user_path(path)
    if not path.exists():
        raise ValueError(f"there is no corpus at {path}")
    check_regular(path)
    if path.is_file() and path.suffix != FILE_TYPE:
        raise ValueError(f"{path} is not a .spacy file. Make one with `python -m spacy convert`")
    for file in walk_corpus(path, FILE_TYPE):
        yield from read_docbin(file, vocab)


def sentence_doc(vocab: Vocab, words: Sequence[str]) -> Doc:
    """Make a Doc that is marked as one sentence, so that segmenters do not split it.

    vocab (Vocab): The vocab.
    words (Sequence[str]): The tokens.
    """
    return Doc(vocab, words=list(words), sent_starts=[i == 0 for i in range(len(words))])


def with_layers(pipe: Elmo, docs: Iterable[Doc]) -> Iterator[tuple[Doc, Floats3d]]:
    """Compute the layers of Docs in batches, and yield each Doc with its layers.

    pipe (Elmo): The pipe with the language model.
    docs (Iterable[Doc]): The Docs.
    YIELDS (Tuple[Doc, Floats3d]): A Doc, and its layers. *Shape:* `(L + 1, n_tokens, 2P)`
    """
    for batch in by_tokens(docs, TOKENS_AT_A_TIME, DOCS_AT_A_TIME):
        yield from zip(batch, pipe.predict(batch))


def read_corpus_docs(
    inputs: Sequence[str], *, format: str = "sentences", lang: Optional[str] = None
) -> Iterator[Doc]:
    """Read Docs from text files (one Doc per sentence) and .spacy files, with a progress bar.

    inputs (Sequence[str]): Files, folders or globs of text, and .spacy files.
    format (str): Format of text files: 'sentences' (one per line) or 'text' (running text).
    lang (Optional[str]): Language of spaCy's tokenizer, for the format 'text'.
    YIELDS (Doc): A Doc.
    RAISES (ValueError): A file is missing or cannot be read.
    """
    annotated = [Path(name) for name in inputs if name.endswith(FILE_TYPE)]
    others = [name for name in inputs if not name.endswith(FILE_TYPE)]
    files = list(dict.fromkeys(find_files(others)))
    # A .spacy file does not store its number of tokens, so the total is unknown.
    total = None if annotated else estimate_tokens(files, format=format)
    with progress_bar(total, None, " tokens", in_logs=False) as bar:
        for doc in _all_docs(files, annotated, format, lang):
            yield doc
            bar.update(len(doc))


def _all_docs(
    files: Sequence[Path], annotated: Sequence[Path], format: str, lang: Optional[str]
) -> Iterator[Doc]:
    vocab = Vocab()
    for sentence in read_sentences(files, format=format, lang=lang):
        if len(vocab.strings) > MAX_STRINGS:
            vocab = Vocab()
        if sentence:
            yield sentence_doc(vocab, sentence)
    for path in annotated:
        yield from read_annotated_docs(path, Vocab())
