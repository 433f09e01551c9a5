"""Published models: names, URLs and licenses, and the cache of downloads."""

import difflib
import hashlib
from dataclasses import dataclass, replace
from importlib.util import find_spec
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Any, Optional, Union
from urllib.parse import urlsplit

from ..files import user_path
from ..files.paths import CACHE_VARIABLE, cache_folder
from ..files.remote import PublishedFile, is_url

BUNDLED = "en_small"
PACKAGE = "spacy_elmo"  # Packages with a model have the name `spacy_elmo_NAME`.
_BUNDLED_FILE = Path(__file__).parent / f"{BUNDLED}.safetensors"
SOURCES = (
    "a name from `python -m spacy elmo download --list`, an https:// URL, the output of `python -m "
    "spacy elmo pretrain`, or a model of AllenNLP, bilm-tf or ELMoForManyLangs"
)
HOW_TO_GIVE_WEIGHTS = (
    "Give the pipe weights: nlp.add_pipe('elmo', config=spacy_elmo.pretrained(PATH)), or weights = "
    f"PATH in [components.elmo] or [initialize.components.elmo] of a config. PATH is {SOURCES}."
)

_ALLENNLP = "https://allennlp.s3.amazonaws.com/models/elmo/{0}/elmo_{0}_{1}"
_GERMAN = "https://github.com/t-systems-on-site-services-gmbh/german-elmo-model/releases/download"
_GERMAN_FILES = (
    PublishedFile(f"{_GERMAN}/files_1/options.json", md5="da99676f2fe2838ff2663a6d9bad97dd"),
    PublishedFile(f"{_GERMAN}/files_1/weights.hdf5", md5="f3ab3a68caae6d42bac47c230b3a65bf"),
)
_MANYLANGS = "http://vectors.nlpl.eu/repository/11/{}.zip"

# Source: github.com/allenai/allennlp/issues/1462.
_ALLENNLP_LICENCE = "AllenNLP states no restriction (its code: Apache-2.0)"
# Source: github.com/HIT-SCIR/ELMoForManyLangs/issues/64.
_MANYLANGS_LICENCE = "MIT"

# Languages of ELMoForManyLangs, in the order of the numbers in their URLs, which start at 136. The
# README of ELMoForManyLangs swaps Dutch and Bokmål. The order here is right.
_MANYLANGS_LANGUAGES = (
    "ar bg ca cs cu da de el en es et eu fa fi fr ga gl grc he hi hr hu id it ja ko la lv nl nb nn "
    "pl pt ro ru sk sl sv tr ug uk ur vi zh"
)


@dataclass(frozen=True)
class NamedModel:
    """Published model, or the model at a URL that the user gives.

    name (str): Name in spacy-elmo, or the URL.
    format (str): "allennlp" or "manylangs"; "" for a URL.
    lang (str): Language code, as in spaCy and Universal Dependencies; "" for a URL.
    licence (str): License of the weights; "" for a URL.
    files (Tuple[PublishedFile, ...]): The weights are last.
    n_weights (int): Number of parameters; 0 if unknown.
    """

    name: str
    format: str
    lang: str
    licence: str
    files: tuple[PublishedFile, ...]
    n_weights: int = 0

    @property
    def size(self) -> int:
        """Size of the cached files in bytes. Before the download: an estimate, or 0 if unknown."""
        if self.is_cached:
            return sum(path.stat().st_size for path in self.paths)
        return 4 * self.n_weights

    @property
    def is_published(self) -> bool:
        """True if the model has a name in spacy-elmo."""
        return not is_url(self.name)

    @property
    def description(self) -> dict[str, Any]:
        """Name, format, languages, license and URLs. Only the URLs if it is not published."""
        urls = {"urls": [file.url for file in self.files]}
        if not self.is_published:
            return urls
        known = {"name": self.name, "format": self.format, "languages": [self.lang]}
        return {**known, "licence": self.licence, **urls}

    @property
    def folder(self) -> Path:
        """Folder of the model in the cache."""
        digest = hashlib.sha256(self.name.encode("utf8")).hexdigest()
        return cache_folder() / (self.name if self.is_published else f"url-{digest[:16]}")

    @property
    def paths(self) -> list[Path]:
        """Paths of all files of the model in the cache. The files need not exist."""
        return [_in_folder(self.folder, file) for file in self.files]

    @property
    def path(self) -> Path:
        """Path of the weights in the cache, whether or not the file exists."""
        return self.paths[-1]

    @property
    def is_cached(self) -> bool:
        """True if all files of the model are in the cache."""
        return all(path.is_file() for path in self.paths)


def _allennlp(name: str, sizes: str, n_weights: int, *bytes_of: Optional[int]) -> NamedModel:
    urls = [_ALLENNLP.format(sizes, file) for file in ("options.json", "weights.hdf5")]
    files = tuple(map(PublishedFile, urls, bytes_of or (None, None)))
    return NamedModel(name, "allennlp", "en", _ALLENNLP_LICENCE, files, n_weights)


def _manylangs(lang: str, number: int) -> NamedModel:
    file = PublishedFile(_MANYLANGS.format(number))
    return NamedModel(f"manylangs-{lang}", "manylangs", lang, _MANYLANGS_LICENCE, (file,))


NAMED = {
    model.name: model
    for model in (
        _allennlp("small", "2x1024_128_2048cnn_1xhighway", 13_593_312),
        _allennlp("medium", "2x2048_256_2048cnn_1xhighway", 28_027_744),
        _allennlp("original", "2x4096_512_2048cnn_2xhighway", 93_600_864, 336, 374_434_792),
        _allennlp("original-5.5B", "2x4096_512_2048cnn_2xhighway_5.5B", 93_600_864),
        NamedModel("german", "allennlp", "de", "BSD-2-Clause", _GERMAN_FILES),
        *map(_manylangs, _MANYLANGS_LANGUAGES.split(), count(136)),
    )
}


def locate(name_or_path: Union[str, Path]) -> Path:
    """Return the path of a model. If it has a URL and is not in the cache, download it.

    name_or_path (Union[str, Path]): One of
        * a path
        * "en_small", the model in this package
        * "NAME", the model of an installed package `spacy_elmo_NAME`
        * the name of a published model: "small", "original", "german", "manylangs-fr" and others
        * the `https://` URL of a `.safetensors` file, a zip archive, or an HDF5 file with its
          `options.json` in the same folder
    RETURNS (Path): If the argument is a path, it need not exist.
    RAISES (ValueError): This package does not contain "en_small", or the URL is not supported.
    RAISES (OSError): The model cannot be downloaded.
    """
    path = user_path(name_or_path)
    named = find_named(name_or_path)
    if named is not None:
        return obtain(named)
    if path.exists():
        return path
    if str(name_or_path) != BUNDLED:
        return find_installed(str(name_or_path)) or path
    if not _BUNDLED_FILE.exists():
        raise ValueError(
            f"the model '{BUNDLED}' is not in this version of spacy-elmo. {HOW_TO_GIVE_WEIGHTS}"
        )
    return _BUNDLED_FILE


def find_installed(name: str) -> Optional[Path]:
    """Return the folder of the pipeline in an installed package, which is not imported; or None.

    name (str): The package is `spacy_elmo_NAME`. Its folder `pipeline` has a pipe `elmo`.
    """
    spec = find_spec(f"{PACKAGE}_{name}") if name.isidentifier() else None
    folders = spec.submodule_search_locations if spec else None
    return next((Path(folder) / "pipeline" for folder in folders or ()), None)


def find_named(name_or_path: Union[str, Path]) -> Optional[NamedModel]:
    """Return the published model with this name, or the model at this URL; None for a path.

    Paths have precedence: if a file or folder has the name of a published model, or AllenNLP's
    files have this name as their prefix, return None.
    """
    name, path = str(name_or_path), user_path(name_or_path)
    if is_url(name):
        return get_named(name)
    if name not in NAMED or path.exists():
        return None
    from .allennlp import AllenNLP

    return NAMED[name] if AllenNLP.find(path) is None else None


def is_available(weights: object) -> bool:
    """Return True if `weights` is not None; for "en_small", only if that model exists."""
    if weights == BUNDLED:
        return Path(BUNDLED).exists() or _BUNDLED_FILE.exists()
    return weights is not None


def get_named(name: str) -> NamedModel:
    """Return the published model that has a name, or the model at a URL.

    RAISES (ValueError): No published model has this name, or the URL is not supported.
    """
    if is_url(name):
        published = (model for model in NAMED.values() if model.files[-1].url == name)
        return next(published, None) or _at_url(name)
    if name == BUNDLED:
        raise ValueError(f"the model '{BUNDLED}' is part of this package. It needs no download")
    if find_installed(name) is not None:
        raise ValueError(f"the model '{name}' is an installed package. It needs no download")
    if name not in NAMED:
        sentences = [f"there is no model named '{name}'.", did_you_mean(name)]
        sentences.append("`python -m spacy elmo download --list` lists all names")
        raise ValueError(" ".join(filter(None, sentences)))
    return NAMED[name]


def did_you_mean(name: object) -> str:
    """Return a question that suggests similar names of models; "" if there are none."""
    similar = difflib.get_close_matches(str(name).lower(), [BUNDLED, *NAMED], n=3)
    return f"Did you mean {' or '.join(similar)}?" if similar else ""


def obtain(model: NamedModel, *, force: bool = False) -> Path:
    """Return the path of the weights of a published model. If they are not cached, download them.

    force (bool): Whether to download a cached model again.
    RAISES (DownloadError): The download failed. The message says how to download the files without
        spacy-elmo.
    RAISES (OSError): The cache cannot be written.
    """
    if model.is_cached and not force:
        return model.path
    from filelock import FileLock

    from .download import DownloadError

    folder = model.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"{folder} cannot be created: {error}. Set {CACHE_VARIABLE} to another folder"
        ) from error
    with FileLock(folder / "lock"):  # Another process may be downloading the same model.
        files = zip(model.files, model.paths)
        missing = [(file, path) for file, path in files if force or not path.is_file()]
        for i, (file, path) in enumerate(missing):
            try:
                _download_either(file, path)
            except DownloadError as error:
                raise DownloadError(f"{error}. {_instructions(missing[i:])}") from None
    return model.path


def _at_url(url: str) -> NamedModel:
    """Make a `NamedModel` for the model at a URL."""
    parts = urlsplit(url)
    is_local = parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
    if parts.scheme != "https" and not is_local:
        raise ValueError(f"{url}: models are only downloaded from https:// URLs")
    weights = PurePosixPath(parts.path)
    files = [PublishedFile(url)]
    if weights.suffix in (".hdf5", ".h5"):
        from .allennlp_files import OPTIONS_FILE, names_beside

        names = names_beside(weights.name, OPTIONS_FILE)
        beside = [parts._replace(path=str(weights.with_name(name))).geturl() for name in names]
        files.insert(0, PublishedFile(beside[0], other_urls=tuple(beside[1:])))
    elif weights.suffix not in (".safetensors", ".zip"):
        raise ValueError(f"{url}: the URL of a model must end in .safetensors, .hdf5, .h5 or .zip")
    return NamedModel(url, "", "", "", tuple(files))


def _in_folder(folder: Path, file: PublishedFile) -> Path:
    """Return the path of a file in a folder: the first of its names that exists, or the first."""
    paths = [folder / name for name in file.names]
    return next((path for path in paths if path.is_file()), paths[0])


def _download_either(file: PublishedFile, path: Path) -> None:
    """Download a file. Try its URLs in order until one works."""
    from .download import DownloadError, download

    for url in (file.url, *file.other_urls):
        try:
            return download(replace(file, url=url), path)
        except DownloadError as error:
            last = error
    raise last


def _instructions(missing: list[tuple[PublishedFile, Path]]) -> str:
    ways = []
    for file, path in missing:
        general = f" (or {file.names[-1]})" if file.other_urls else ""
        ways.append(f"put {file.url}{general} at {path}")
    return f"To download it yourself, {'; '.join(ways)}"
