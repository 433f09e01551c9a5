"""Format of a spaCy pipeline: a folder with the pipe `elmo`, and files of the softmax."""

from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import requires
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional

from ..files import atomic_folder, atomic_write
from ..files.errors import listed, named_errors, shortened
from ..files.input_files import decode
from .archives import File, beside_weights, read_bytes, read_object
from .attribution import LICENSES_FILE, META_FILE
from .bundle import ModelBundle
from .limits import LARGEST_CONFIG, MAX_SECTIONS
from .safetensors_file import MODEL_FILE, SafetensorsFile, find_one
from .softmax_file import SOFTMAX_FILE, read_softmax, softmax_to_bytes
from .vocabulary_files import VOCABULARY_FILE

if TYPE_CHECKING:
    from spacy.language import Language

PIPE = "elmo"
DESCRIPTION = "An ELMo language model for spacy-elmo"
CONFIG_FILE = "config.cfg"
_VOCAB_FILES = ("key2row", "lookups.bin", "strings.json", "vectors", "vectors.cfg")


class PipelineFolder(SafetensorsFile):
    """Folder of a spaCy pipeline with one biLM.

    Other components are not read. `write` makes a pipeline with only the pipe `elmo`.
    """

    name = "pipeline"
    suffixes = ()
    marker = CONFIG_FILE
    # The tokenizers of some languages are folders.
    written = frozenset(
        {CONFIG_FILE, META_FILE, "tokenizer", "tokenizer/cfg", f"{PIPE}/{MODEL_FILE}"}
        | {SOFTMAX_FILE, VOCABULARY_FILE, LICENSES_FILE}
        | {f"vocab/{name}" for name in _VOCAB_FILES}
    )
    contents = "pipeline with a single pipe, elmo"
    rounds_softmax = False

    def __init__(self, folder: Path, file: Path):
        super().__init__(file)
        self.folder = folder
        self.others = [folder / name for name in (SOFTMAX_FILE, VOCABULARY_FILE)]

    @classmethod
    def find(cls, path: File) -> Optional["PipelineFolder"]:
        """Find the folder of a pipeline that has the weights of a biLM."""
        if not isinstance(path, Path) or not (path / CONFIG_FILE).is_file():
            return None
        file = find_one(path, f"*/{MODEL_FILE}")
        return None if file is None else cls(path, file)

    def read(self, *, weights_only: bool = False, softmax: bool = True) -> ModelBundle:
        """Read weights, softmax and language. The bundle's `extras` name the other parts."""
        for name in (CONFIG_FILE, META_FILE, SOFTMAX_FILE, VOCABULARY_FILE):
            beside_weights(self.folder / name, self.file, self.folder)
        bundle, pipe = super().read(weights_only=True), self.file.parent.name
        bundle.lang, names, settings = _read_config(self.folder / CONFIG_FILE, pipe)
        if weights_only:
            return bundle
        absent = [file.name for file in self.others if not file.is_file()]
        if softmax and absent:
            bundle.missing = absent[0]
        elif softmax:
            file, vocabulary = self.others
            bundle.prediction = read_softmax(file, bundle.bilm.config.projection_dim, vocabulary)
        others = [name for name in names if name != pipe]
        if others:
            bundle.extras.append(f"the other components ({listed(others)})")
        bundle.extras.extend(_changed_entries(pipe, settings, self.folder / META_FILE))
        return bundle

    def files(self) -> list[Path]:
        """Return the weights, and softmax and vocabulary if both exist."""
        return [self.file, *(self.others if all(file.is_file() for file in self.others) else [])]

    @classmethod
    def check(cls, bundle: ModelBundle) -> None:
        """Raise a ValueError if the language of a model is unknown, because a pipeline needs it."""
        if not bundle.lang:
            raise ValueError(
                "a pipeline needs a language, but the language of the model is not known. Set "
                "`lang` to its code, such as 'de' for German"
            )

    @classmethod
    def write(cls, bundle: ModelBundle, target: Path, dtype: str = "float32") -> None:
        """Write a pipeline with the pipe `elmo`, and the softmax."""
        cls.check(bundle)
        with atomic_folder(target) as folder:
            _pipeline(bundle).to_disk(folder)
            if bundle.prediction is not None:
                softmax = softmax_to_bytes(bundle.prediction, words=False)
                atomic_write(folder / SOFTMAX_FILE, softmax)
                bundle.prediction[1].to_disk(folder / VOCABULARY_FILE)
            # The pipe chooses the type of each tensor, see `save`.
            written = cls(folder, folder / PIPE / MODEL_FILE)
            if written.dtype() != dtype:
                super().write(replace(bundle, prediction=None), written.file, dtype)

    @classmethod
    def targets(cls, target: Path) -> list[Path]:
        """Return the folder of the pipeline."""
        return [target]

    @classmethod
    def find_foreign(cls, folder: Path) -> Optional[str]:
        """Describe a file or component of a folder that `write` does not create."""
        found, config = super().find_foreign(folder), folder / CONFIG_FILE
        if found is None and config.is_file() and _read_config(config, PIPE)[1] != [PIPE]:
            return "it has other components than elmo"
        return found


def spacy_versions() -> str:
    """Return the range of spaCy versions in the requirements of spacy-elmo: ">=LOWEST,<NEXT".

    In `meta.json`, spaCy itself writes only its own minor version.
    """
    from packaging.requirements import Requirement

    found = [Requirement(line) for line in requires("spacy-elmo") or ()]
    (limits,) = (one.specifier for one in found if one.name == "spacy" and not one.marker)
    return ",".join(sorted(map(str, limits), reverse=True))


def _pipeline(bundle: ModelBundle) -> "Language":
    import spacy

    assert bundle.lang is not None
    lang = shortened(bundle.lang)
    with named_errors(f"spaCy has no language {lang}. Set `lang` to another", ImportError):
        nlp = spacy.blank(bundle.lang)
    sizes = {"@architectures": "spacy-elmo.BiLM.v1", **bundle.bilm.config.to_dict()}
    pipe = nlp.add_pipe("elmo", name=PIPE, config={"model": sizes, "weights": None})
    pipe.set_bilm(bundle.bilm)  # type: ignore[attr-defined]
    nlp.meta["description"] = DESCRIPTION
    nlp.meta["spacy_version"] = spacy_versions()
    nlp.meta["performance"] = bundle.provenance.get("perplexity", {})
    return nlp


def _changed_entries(pipe: str, settings: dict[str, Any], meta_file: Path) -> Iterator[str]:
    """Describe each setting of the pipe that differs from the defaults, and static vectors.

    They are lost if only the biLM is read.

    RAISES (ValueError): meta.json cannot be read.
    """
    import spacy

    # A new pipe has the defaults. This package is below `pipeline`, and may not import it.
    new = spacy.blank("xx")
    new.add_pipe("elmo", config={"weights": None})
    defaults = new.config["components"]["elmo"]
    compared = [name for name in defaults if name not in ("model", "weights")]
    changed = [name for name in compared if settings.get(name, defaults[name]) != defaults[name]]
    if changed:
        yield f"settings of the pipe '{pipe}' ({', '.join(changed)})"
    meta = read_object(meta_file) if meta_file.is_file() else {}
    vectors = meta.get("vectors", {})
    if not isinstance(vectors, dict):
        raise ValueError(f"{meta_file} is not a meta.json of spaCy: 'vectors' is not an object")
    if vectors.get("vectors"):
        yield "static vectors"


def _read_config(path: Path, pipe: str) -> tuple[Optional[str], list[str], dict[str, Any]]:
    """Read config.cfg. Return the language, the names of all components, and a pipe's settings."""
    from spacy.util import load_config_from_str

    text = read_bytes(path, LARGEST_CONFIG)
    if text.count(b"\n[") > MAX_SECTIONS:
        raise ValueError(f"{path}: more than {MAX_SECTIONS:,} sections")
    with named_errors(f"{path}: not a readable config", Exception):
        config = load_config_from_str(decode(text))
    nlp = config.get("nlp", {})
    lang, names = nlp.get("lang"), nlp.get("pipeline", [])
    settings = config.get("components", {}).get(pipe, {})
    are_strings = isinstance(names, list) and all(isinstance(name, str) for name in names)
    for name, value, is_right, wanted in (
        ("[nlp] lang", lang, isinstance(lang, (str, type(None))), "a string"),
        ("[nlp] pipeline", names, are_strings, "a list of strings"),
        (f"[components] {pipe}", settings, isinstance(settings, dict), "a section"),
    ):
        if not is_right:
            raise ValueError(f"{path}: {name} must be {wanted}, got {shortened(value)}")
    return lang, names, settings
