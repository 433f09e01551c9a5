"""Format of bilm-tf and AllenNLP: `options.json` and `weights.hdf5`."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from pathlib import Path
from typing import Any, ClassVar, Optional

import numpy as np
import srsly

from ..files import OpenedFile, publish, temporary_folder
from ..files.errors import listed, named_errors
from ..files.hdf5 import guarded_hdf5
from ..frozen.softmax import FrozenSoftmax
from ..model.config import BiLMConfig
from ..model.vocabulary import SPECIAL, InputVocabulary, Vocabularies
from .allennlp_files import (
    OPTIONS_FILE,
    SUFFIXES,
    expected,
    find_options,
    find_softmax,
    find_vocabulary,
    names_beside,
    vocabulary_of,
    weights_in,
)
from .archives import File, read_json, suffix
from .bundle import Format, ModelBundle, Prediction
from .hdf5_file import HDF5Arrays, open_hdf5
from .layout import Entry, build, open_files, plain, read_parameters, reread, stored_arrays
from .sizes import from_options, to_options
from .softmax_file import make_prediction
from .vocabulary_files import VOCABULARY_FILE, vocab_content

EMBEDDING = "embedding"
PROVENANCE = "spacy_elmo_provenance"
SOFTMAX = "softmax/"
WEIGHT, BIAS = f"{SOFTMAX}W", f"{SOFTMAX}b"
# An unknown dataset in one of these groups is an error. Datasets in other groups are ignored.
BILM_GROUPS = ("char_embed", "CNN", "RNN_", "rnn/")


class AllenNLP(Format):
    """Model of bilm-tf or AllenNLP: weights, options, and `vocab.txt` for word vectors or softmax.

    The HDF5 files that spacy-elmo writes also contain the softmax and the provenance. AllenNLP
    ignores both.

    embeddings (Optional[Path]): An HDF5 file of precomputed token vectors (dataset `embedding`),
        written by bilm-tf. The character CNN computes the vectors of all other words.
    vocabulary (Optional[Path]): The words of `embeddings`, or of a model without characters.
        Default: the `vocab.txt` in the folder of the vectors.
    """

    name = "allennlp"
    suffixes: ClassVar[tuple[str, ...]] = SUFFIXES
    programs = "AllenNLP and bilm-tf"

    def __init__(self, options: File, weights: File):
        self.options = options
        self.weights = weights
        self.embeddings: Optional[Path] = None
        self.vocabulary: Optional[Path] = None

    @classmethod
    def find(cls, path: File) -> Optional["AllenNLP"]:
        """Find a model by its HDF5 file, its folder, or the common prefix of its file names."""
        if path.is_file():
            return cls._of(path) if suffix(path) in cls.suffixes else None
        if path.is_dir():
            weights = weights_in(path)
            return None if weights is None else cls._of(weights)
        if isinstance(path, Path):
            for separator in ("", "_"):
                weights = path.with_name(f"{path.name}{separator}weights.hdf5")
                if weights.is_file():
                    return cls._of(weights)
        return None

    @classmethod
    def _of(cls, weights: File) -> "AllenNLP":
        options = find_options(weights)
        if options is None:
            if _are_vectors(weights):
                raise ValueError(
                    f"{weights} contains vectors of sentences, as AllenNLP's command `elmo` writes "
                    f"them, not the weights of a model. Give the weights that computed them."
                )
            place = expected(weights, OPTIONS_FILE)
            raise ValueError(f"{weights}: the options file is missing. Expected {place}")
        return cls(options, weights)

    def read(self, *, weights_only: bool = False, softmax: bool = True) -> ModelBundle:
        """Read weights, options, words and softmax."""
        options = read_json(self.options)
        is_model = isinstance(options, Mapping) and "lstm" in options
        has_words = self.embeddings is not None or (is_model and "char_cnn" not in options)
        with ExitStack() as stack:
            paths = [self.weights, *([] if self.embeddings is None else [self.embeddings])]
            # `read_again` opens HDF5 files. TensorFlow opens a checkpoint by its path, so an open
            # file would not help, and a `Checkpoint` keeps its weights in memory.
            files = open_files(*paths) if type(self) is AllenNLP else []
            stored = [stack.enter_context(self._opened(path)) for path in paths]
            words = self._read_words(stored[-1]) if has_words else None
            config = self._config(options, stored[0], 0 if words is None else len(words))

            def read_again(*files: OpenedFile) -> dict[str, np.ndarray]:
                with ExitStack() as stack:
                    again = [stack.enter_context(open_hdf5(file)) for file in files]
                    return self._parameters(config, words, again)[0]

            parameters, ordered = self._parameters(config, words, stored)
            vocabularies, read = Vocabularies(words=ordered), reread(files, read_again)
            bilm = build(config, vocabularies, parameters, source=self.weights, read=read)
            bundle = ModelBundle(bilm)
            text = stored[0].attribute(PROVENANCE)
            with named_errors(f"{self.weights}: the provenance is not valid JSON"):
                provenance = None if text is None else srsly.json_loads(text)
            bundle.add_provenance(provenance, self.weights)
            if not weights_only:
                self._add_rest(bundle, stored[0], softmax)
        return bundle

    def _opened(self, path: File) -> AbstractContextManager[HDF5Arrays]:
        return open_hdf5(path)

    def files(self) -> list[Path]:
        """Return the weights, the options, and the vocabulary and softmax if they exist."""
        others = find_vocabulary(self.weights), find_softmax(self.weights)
        return [file for file in (self.weights, self.options, *others) if isinstance(file, Path)]

    def dtype(self) -> Optional[str]:
        """Return the dtypes of the datasets, separated by commas, such as "float32"."""
        with open_hdf5(self.weights) as stored:
            return ", ".join(sorted(stored.dtypes())) or None

    @classmethod
    def targets(cls, target: Path) -> list[Path]:
        """Return the paths that `write` may create: weights, options and vocabulary."""
        names = (names_beside(target.name, name)[0] for name in (OPTIONS_FILE, VOCABULARY_FILE))
        return [target, *map(target.with_name, names)]

    @classmethod
    def check(cls, bundle: ModelBundle) -> None:
        """Raise a ValueError if `options.json` or `vocab.txt` cannot store a model."""
        to_options(bundle.bilm.config)
        _words_content(bundle)

    @classmethod
    def stores_softmax(cls, softmax: FrozenSoftmax) -> bool:
        """Return whether the softmax is a full softmax, the only kind that the format stores."""
        return softmax.kind == "full"

    @classmethod
    def write(cls, bundle: ModelBundle, target: Path, dtype: str = "float32") -> None:
        """Write the weights to the HDF5 file `target`, and options and vocabulary next to it.

        The weights get their final name last, so weights without options never exist.
        """
        bilm = bundle.bilm
        options, words = to_options(bilm.config), _words_content(bundle)
        with temporary_folder(target) as folder:
            unfinished = [folder / name for name in ("weights", OPTIONS_FILE, VOCABULARY_FILE)]
            with guarded_hdf5(unfinished[0]) as (file, check):
                for dataset, values in stored_arrays(_layout(bilm.config), bilm.arrays()):
                    file[dataset] = values
                    check()
                if bundle.prediction is not None:
                    softmax = bundle.prediction[0].arrays()
                    for dataset, name in ((WEIGHT, "weight"), (BIAS, "bias")):
                        file[dataset] = np.asarray(softmax[name], dtype="float32")
                    check()
                file.attrs[PROVENANCE] = srsly.json_dumps(bundle.provenance)
            srsly.write_json(unfinished[1], options)
            if words is not None:
                unfinished[2].write_text(words, "utf8", newline="\n")
            for part, path in zip(reversed(unfinished), reversed(cls.targets(target))):
                if part.exists():
                    publish(part, path)

    def _config(self, options: Any, stored: HDF5Arrays, n_words: int) -> BiLMConfig:
        declared = options.get("bidirectional") if isinstance(options, Mapping) else None
        # Published options do not have this entry. But the names of the datasets differ: with one
        # direction, they begin with "rnn/".
        found = not any(name.startswith("rnn/") for name in stored)
        bidirectional = declared if isinstance(declared, bool) else found
        with named_errors(self.options):
            return from_options(options, n_words=n_words, bidirectional=bidirectional)

    def _parameters(
        self, config: BiLMConfig, words: Optional[InputVocabulary], stored: list[HDF5Arrays]
    ) -> tuple[dict[str, np.ndarray], Optional[InputVocabulary]]:
        """Read the parameters from open files. Return also the words, in the order of their rows.

        The first file has the weights, the last one the word vectors, in the order of `words`. A
        model that reads only characters has no words.
        """
        layout = [entry for entry in _layout(config, stored[0]) if entry.name != EMBEDDING]
        parameters = read_parameters(layout, stored[0], self.options.name, BILM_GROUPS)
        if words is not None:
            table = plain(EMBEDDING, (len(words), config.projection_dim), "encoder.words.weight")
            parameters.update(read_parameters([table], stored[-1], self.options.name, ()))
            if not config.n_characters:
                words = _marks_first(words, parameters, "encoder.words.weight")
        return parameters, words

    def _read_words(self, stored: HDF5Arrays) -> InputVocabulary:
        """Read the words that belong to the rows of the dataset `embedding`."""
        file, shape = self.embeddings or self.weights, stored.shape(EMBEDDING)
        if shape is None or len(shape) != 2 or not shape[0]:
            raise ValueError(
                f"{file}: no dataset '{EMBEDDING}' with one row per word. Files of token vectors "
                f"need it, and models without 'char_cnn' in their options"
            )
        return vocabulary_of(EMBEDDING, shape[0], file, self.vocabulary)

    def _add_rest(self, bundle: ModelBundle, stored: HDF5Arrays, softmax: bool) -> None:
        """Add the softmax to the bundle if `softmax` is True. Name ignored datasets in `extras`."""
        is_inside = any(name.startswith(SOFTMAX) for name in stored)
        file = self.weights if is_inside else find_softmax(self.weights)
        if softmax and file is not None:
            words = find_vocabulary(self.weights)
            if words is None:
                bundle.missing = VOCABULARY_FILE
            else:
                width = bundle.bilm.config.projection_dim
                with nullcontext(stored) if is_inside else open_hdf5(file) as arrays:
                    bundle.prediction = self._read_softmax(arrays, width, file, words)
        known = (*BILM_GROUPS, EMBEDDING, SOFTMAX)
        unknown = [name for name in stored if not name.startswith(known)]
        if unknown:
            bundle.extras.append(f"datasets that do not belong to a biLM ({listed(unknown)})")

    def _read_softmax(
        self, stored: HDF5Arrays, width: int, file: File, words_of: File
    ) -> Prediction:
        """Read the softmax and its words."""
        shape = stored.shape(WEIGHT)
        n_words = shape[0] if shape else 0
        layout = [plain(WEIGHT, (n_words, width), "weight"), plain(BIAS, (n_words,), "bias")]
        parameters = read_parameters(layout, stored, self.options.name, (SOFTMAX,))
        read = vocabulary_of(WEIGHT, n_words, file, words_of)
        read = _marks_first(read, parameters, *parameters, keep_unused=False)
        words = [word or "" for word in read.strings]
        return make_prediction(parameters, words, width, file, words_of)


def _words_content(bundle: ModelBundle) -> Optional[str]:
    """Return the content of `vocab.txt`: the words that the model reads or predicts, if any.

    RAISES (ValueError): The model reads words, but predicts other words.
    """
    read, prediction = bundle.bilm.vocabularies.words, bundle.prediction
    if prediction is None or not AllenNLP.stores_softmax(prediction[0]):
        return None if read is None else vocab_content(read)
    predicted = prediction[1]
    if read is not None and [word or "" for word in read.strings] != predicted.words:
        raise ValueError(
            f"the words that the model reads differ from the words that it predicts, and one "
            f"{VOCABULARY_FILE} cannot store both. Set `keep_softmax=False` to omit the softmax"
        )
    if read is not None:
        return vocab_content(read)
    with named_errors("the softmax, which `keep_softmax=False` omits"):
        return vocab_content(predicted)


def _marks_first(
    words: InputVocabulary,
    parameters: dict[str, np.ndarray],
    *tables: str,
    keep_unused: bool = True,
) -> InputVocabulary:
    """Move the rows of `<S>`, `</S>` and `<UNK>` to the front of all tables, in place.

    Return the words in the new order. In the files of bilm-tf, these rows can be anywhere.

    keep_unused (bool): Whether to keep unused rows: if a word has several rows, only the last one
        is used.
    """
    marks = [words[mark] for mark in SPECIAL if mark in words]
    rows = marks + [row for row in range(len(words)) if row not in marks]
    if not keep_unused:
        rows = [row for row in rows if words.strings[row] is not None]
    moved = [place for place, row in enumerate(rows) if place != row]
    n_moved = moved[-1] + 1 if moved else 0
    for table in tables:
        # Only move the rows that must move, without a copy: the published softmax has 1.6 GB.
        parameters[table][:n_moved] = parameters[table][rows[:n_moved]]
        parameters[table] = parameters[table][: len(rows)]
    return InputVocabulary([words.strings[row] for row in rows])


def _layout(config: BiLMConfig, stored: Optional[HDF5Arrays] = None) -> Iterator[Entry]:
    """Yield the entry of each dataset of a model.

    Some names in the file are misleading: `W_carry` is the transform gate of the highway.

    stored (Optional[HDF5Arrays]): The file to read: some programs write other shapes or names, and
        the layout adapts to them. Default: the layout that spacy-elmo writes.
    """
    width, n_filters = config.projection_dim, config.n_filters
    if config.n_words:
        yield plain(EMBEDDING, (config.n_words, width), "encoder.words.weight")
    if config.n_characters:
        # Some files have one more row, for a character id that no word uses.
        longer = (262, config.char_embed_dim)
        has_more = stored is not None and stored.shape("char_embed") == longer
        yield Entry(
            "char_embed",
            longer if has_more else (261, config.char_embed_dim),
            ("encoder.embedding.weight",),
            lambda values: [np.concatenate([np.zeros_like(values[:1]), values[:261]])],
            lambda arrays: arrays[0][1:],
        )
    for i, (size, number) in enumerate(config.filters):
        name = f"encoder.convolutions.{i}"
        yield Entry(
            f"CNN/W_cnn_{i}",
            (1, size, config.char_embed_dim, number),
            (f"{name}.weight",),
            lambda values: [values[0].transpose(2, 1, 0)],
            lambda arrays: arrays[0].transpose(2, 1, 0)[None],
        )
        yield plain(f"CNN/b_cnn_{i}", (number,), f"{name}.bias")
    for k in range(config.n_highway):
        for theirs, ours in (("carry", "gate"), ("transform", "nonlinear")):
            name = f"encoder.highways.{k}.{ours}"
            group = f"CNN_high_{k}"
            shape = (n_filters, n_filters)
            yield plain(f"{group}/W_{theirs}", shape, f"{name}.weight", np.transpose)
            yield plain(f"{group}/b_{theirs}", (n_filters,), f"{name}.bias")
    if config.projected_width:
        shape = (n_filters, width)
        yield plain("CNN_proj/W_proj", shape, "encoder.projection.weight", np.transpose)
        yield plain("CNN_proj/b_proj", (width,), "encoder.projection.bias")
    for direction in range(config.n_directions):
        for layer in range(config.n_layers):
            yield from _lstm(config, direction, layer, stored)


def _lstm(
    config: BiLMConfig, direction: int, layer: int, stored: Optional[HDF5Arrays]
) -> Iterator[Entry]:
    width, lstm_dim = config.projection_dim, config.lstm_dim
    root, weight, bias, projection = f"RNN_{direction}/RNN", "W_0", "B", "W_P_0"
    if not config.bidirectional:  # bilm-tf does not rename TensorFlow's variables in this case.
        root, weight, bias, projection = "rnn", "kernel", "bias", "projection/kernel"
    group = f"{root}/MultiRNNCell/Cell{layer}/LSTMCell"
    alone = f"{root}/LSTMCell"
    if config.n_layers == 1 and stored is not None and f"{alone}/{weight}" in stored:
        group = alone
    name = f"stacks.{direction}.{layer}"
    yield Entry(
        f"{group}/{weight}",
        (2 * width, 4 * lstm_dim),
        (f"{name}.input_weight", f"{name}.state_weight"),
        lambda values: [values[:width].T, values[width:].T],
        lambda arrays: np.concatenate([array.T for array in arrays]),
    )
    yield plain(f"{group}/{bias}", (4 * lstm_dim,), f"{name}.bias")
    if width < lstm_dim:
        yield plain(f"{group}/{projection}", (lstm_dim, width), f"{name}.projection", np.transpose)


def _are_vectors(file: File) -> bool:
    """Check whether an HDF5 file contains the vectors of sentences, with their numbers as names."""
    with suppress(ValueError, OSError), open_hdf5(file) as stored:
        names = set(stored) - {"sentence_to_index"}
        return bool(names) and all(name.isdecimal() for name in names)
    return False
