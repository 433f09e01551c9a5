"""Arguments and options that several commands share, and functions that read pipelines."""

from typing import TYPE_CHECKING

import spacy
import typer
from spacy.language import Language
from spacy.vectors import Mode
from thinc.api import to_numpy

from ..files import user_path

if TYPE_CHECKING:
    from ..weights.cove import WordVectors


MODEL = typer.Argument(
    ..., help="Pipeline with an elmo pipe (folder or package), or weights (path or name)"
)
LANGUAGE_MODEL = typer.Argument(
    ..., help="Model with softmax and vocabulary: output of `spacy elmo pretrain`, or HDF5"
)
PIPELINE = typer.Argument(..., help="Folder or package name of a pipeline")
FORMAT = typer.Option(
    "sentences", help="'sentences' (one per line, tokens separated by spaces) or 'text'"
)
INPUT_FORMAT = typer.Option(
    None, help="Format of files whose suffix names none: 'txt', 'jsonl' or another suffix"
)
LANG = typer.Option(
    None, help="Language of spaCy's tokenizer for running text; default: the model's"
)
SENTENCE = typer.Option(..., help="Sentence with spaces between its tokens")
TOKEN = typer.Option(
    ..., help="Token in the sentence: its position from 0, or the word if it occurs only once"
)
LAYERS = typer.Option(
    None, help="Layers to read, such as '0,2,average,concat'; default: each layer and their average"
)
AS_JSON = typer.Option(False, "--json", help="Print JSON instead of a table")
JSON_FILE = typer.Option(None, help="JSON file to write; '-' prints it")
HTML = typer.Option(None, help="HTML page to write")
READER = typer.Option(
    None,
    help="Reader with its default settings, such as spacy-elmo.QACorpus.v1; default: the reader "
    "and settings of the dev data in the pipeline's config",
)
CODE = typer.Option(None, "--code", "-c", help="Python file with functions that the pipeline needs")
GPU_ID = typer.Option(-1, "--gpu-id", "-g", help="GPU, or -1 for the CPU")
FORCE = typer.Option(False, "--force", "-F", help="Replace an existing file")


def load_pipeline(name: str) -> Language:
    """Load a pipeline.

    name (str): A folder, or the name of a package.
    RETURNS (Language): The pipeline.
    RAISES (OSError): The pipeline does not exist.
    """
    path = user_path(name)
    return spacy.load(path if path.exists() else name)


def read_word_vectors(pipeline: str) -> "WordVectors":
    """Read the static word vectors of a pipeline.

    pipeline (str): Folder or package name of the pipeline.
    RETURNS (WordVectors): The words and their vectors.
    RAISES (ValueError): The pipeline has no vectors.
    """
    from ..weights.cove import WordVectors

    vocab = load_pipeline(pipeline).vocab
    if vocab.vectors.mode != Mode.default or not vocab.vectors.n_keys:
        raise ValueError(
            f"{pipeline} has no word vectors. Make a pipeline from a file like GloVe's: "
            f"`python -m spacy init vectors LANG FILE FOLDER`"
        )
    rows = vocab.vectors.key2row
    table = to_numpy(vocab.vectors.data)[list(rows.values())]
    return WordVectors([vocab.strings[key] for key in rows], table)
