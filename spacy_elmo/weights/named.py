"""Published models by name: where they are, under which licence, and the cache."""

import difflib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

from .remote_file import RemoteFile

CACHE_VARIABLE = "SPACY_ELMO_CACHE"

_ALLENNLP = "https://allennlp.s3.amazonaws.com/models/elmo/{0}/elmo_{0}_{1}"
_GERMAN = (
    "https://github.com/t-systems-on-site-services-gmbh/german-elmo-model/releases/download/files_1"
)
_MANYLANGS = "http://vectors.nlpl.eu/repository/11/{}.zip"

# github.com/allenai/allennlp/issues/1462: they put no restriction on the models.
_ALLENNLP_LICENCE = "no restriction by AllenNLP (their code: Apache-2.0)"
# github.com/HIT-SCIR/ELMoForManyLangs/issues/64
_MANYLANGS_LICENCE = "MIT"

# As in the table of ELMoForManyLangs' README, where Dutch and Bokmål change places.
_MANYLANGS_NUMBERS = {
    "ar": 136, "bg": 137, "ca": 138, "cs": 139, "cu": 140, "da": 141, "de": 142, "el": 143,
    "en": 144, "es": 145, "et": 146, "eu": 147, "fa": 148, "fi": 149, "fr": 150, "ga": 151,
    "gl": 152, "grc": 153, "he": 154, "hi": 155, "hr": 156, "hu": 157, "id": 158, "it": 159,
    "ja": 160, "ko": 161, "la": 162, "lv": 163, "nl": 164, "nb": 165, "nn": 166, "pl": 167,
    "pt": 168, "ro": 169, "ru": 170, "sk": 171, "sl": 172, "sv": 173, "tr": 174, "ug": 175,
    "uk": 176, "ur": 177, "vi": 178, "zh": 179,
}  # fmt: skip


@dataclass(frozen=True)
class NamedModel:
    """A published model.

    name (str): Its name here.
    format (str): "allennlp" or "manylangs".
    lang (str): Its language, as spaCy and Universal Dependencies write it.
    licence (str): Under which it was published.
    files (Tuple[RemoteFile, ...]): Its files, the weights last.
    """

    name: str
    format: str
    lang: str
    licence: str
    files: tuple[RemoteFile, ...]

    @property
    def paths(self) -> list[Path]:
        """RETURNS (List[Path]): Where its files are in the cache, or will be."""
        return [cache_folder() / self.name / file.name for file in self.files]

    @property
    def path(self) -> Path:
        """RETURNS (Path): Where its weights are in the cache, or will be."""
        return self.paths[-1]

    @property
    def is_cached(self) -> bool:
        """RETURNS (bool): Whether all of its files are there."""
        return all(path.is_file() for path in self.paths)


def _allennlp(
    name: str, sizes: str, bytes_of: tuple[Optional[int], ...] = (None, None)
) -> NamedModel:
    options, weights = (_ALLENNLP.format(sizes, file) for file in ("options.json", "weights.hdf5"))
    files = (RemoteFile(options, size=bytes_of[0]), RemoteFile(weights, size=bytes_of[1]))
    return NamedModel(name, "allennlp", "en", _ALLENNLP_LICENCE, files)


def _german() -> NamedModel:
    files = (
        RemoteFile(f"{_GERMAN}/options.json", md5="da99676f2fe2838ff2663a6d9bad97dd"),
        RemoteFile(f"{_GERMAN}/weights.hdf5", md5="f3ab3a68caae6d42bac47c230b3a65bf"),
    )
    return NamedModel("german", "allennlp", "de", "BSD-2-Clause", files)


def _manylangs(lang: str, number: int) -> NamedModel:
    file = RemoteFile(_MANYLANGS.format(number))
    return NamedModel(f"manylangs-{lang}", "manylangs", lang, _MANYLANGS_LICENCE, (file,))


NAMED = {
    model.name: model
    for model in (
        _allennlp("small", "2x1024_128_2048cnn_1xhighway"),
        _allennlp("medium", "2x2048_256_2048cnn_1xhighway"),
        _allennlp("original", "2x4096_512_2048cnn_2xhighway", (336, 374_434_792)),
        _allennlp("original-5.5B", "2x4096_512_2048cnn_2xhighway_5.5B"),
        _german(),
        *(_manylangs(lang, number) for lang, number in _MANYLANGS_NUMBERS.items()),
    )
}


def cache_folder() -> Path:
    """RETURNS (Path): Where downloaded models are kept: SPACY_ELMO_CACHE, or the
    folder `spacy-elmo` where other programs have their caches."""
    own = os.environ.get(CACHE_VARIABLE)
    if own:
        return Path(own).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "spacy-elmo"


def get_named(name: str) -> NamedModel:
    """Look a published model up.

    name (str): Its name.
    RETURNS (NamedModel): The model.
    RAISES (ValueError): There is none of that name.
    """
    if name not in NAMED:
        similar = difflib.get_close_matches(name, NAMED, n=3)
        meant = f" Did you mean {' or '.join(similar)}?" if similar else ""
        raise ValueError(
            f"there is no model named '{name}'.{meant} "
            f"`python -m spacy elmo download --list` shows all"
        )
    return NAMED[name]


def obtain(model: NamedModel, *, force: bool = False) -> Path:
    """Find a published model in the cache, or download it. What is in the cache is
    taken without a look at the network.

    model (NamedModel): The model.
    force (bool): Download it again, even if it is there.
    RETURNS (Path): Its weights.
    RAISES (DownloadError): It is not there and cannot be downloaded; the message says
        what to fetch by hand, and where to put it.
    RAISES (OSError): The cache cannot be written.
    """
    if model.is_cached and not force:
        return model.path
    from filelock import FileLock

    from .download import DownloadError, download

    folder = cache_folder() / model.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"{folder} cannot be made: {error}. Set {CACHE_VARIABLE} to another folder"
        ) from error
    with FileLock(folder / "lock"):  # another process may be at it: wait, then it is there
        missing = [
            (file, path)
            for file, path in zip(model.files, model.paths)
            if force or not path.is_file()
        ]
        for i, (file, path) in enumerate(missing):
            try:
                download(file, path)
            except DownloadError as error:
                raise DownloadError(f"{error}. {_by_hand(missing[i:])}") from error
    return model.path


def _by_hand(missing: list[tuple[RemoteFile, Path]]) -> str:
    ways = "; ".join(f"put {file.url} at {path}" for file, path in missing)
    return f"To do without: {ways}"
