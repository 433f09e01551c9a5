"""Writer of precomputed token vectors, in the format of bilm-tf's `dump_token_embeddings`."""

from pathlib import Path

from ..files import WHOLE, progress_bar, publish, temporary_folder, user_path
from ..files.hdf5 import guarded_hdf5
from ..frozen.model import FrozenBiLM
from .allennlp import EMBEDDING
from .vocabulary_files import read_words

WORDS_AT_A_TIME = 4096


def dump_token_embeddings(bilm: FrozenBiLM, vocabulary: Path, path: Path) -> int:
    """Compute the token vectors (layer 0) of the words of a vocabulary, and write them to a file.

    The dataset `embedding` of the file has one row per word. bilm-tf's `TokenBatcher` and the
    reader `spacy-elmo.allennlp.v1` can use the file.

    bilm (FrozenBiLM): The model.
    vocabulary (Path): A text file with one word per line, such as `vocab.txt`.
    path (Path): The HDF5 file to write. It appears when it is complete.
    RETURNS (int): The number of rows.
    RAISES (ValueError): The vocabulary cannot be read, or is empty.
    """
    vocabulary, path = user_path(vocabulary), user_path(path)
    # A file has at most as many lines as bytes.
    words = read_words(vocabulary, vocabulary.stat().st_size)
    if not words:
        raise ValueError(f"{vocabulary} contains no words")
    shape = (len(words), bilm.config.projection_dim)
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        temporary_folder(path) as folder,
        progress_bar(len(words), path.name, " words", in_logs=False) as bar,
    ):
        unfinished = folder / WHOLE
        with guarded_hdf5(unfinished) as (file, check):
            rows = file.create_dataset(EMBEDDING, shape, "float32")
            for start in range(0, len(words), WORDS_AT_A_TIME):
                part = words[start : start + WORDS_AT_A_TIME]
                places = {word: i for i, word in enumerate(dict.fromkeys(part))}
                vectors = bilm.token_vectors(list(places))
                rows[start : start + len(part)] = vectors[[places[word] for word in part]]
                check()
                bar.update(len(part))
        publish(unfinished, path)
    return len(words)
