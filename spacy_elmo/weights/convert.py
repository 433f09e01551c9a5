"""Conversion of weights to another format, and checks for what would be lost."""

from pathlib import Path
from typing import Any, Optional, Union

from ..files import followed, is_stream, user_path
from .attribution import beside, write_attribution
from .bundle import Format, ModelBundle, checked_provenance
from .cove import WordVectors, read_cove
from .formats import FORMATS, read_bundle
from .tensor_file import DTYPES


class LossError(ValueError):
    """Error: a conversion would lose information, and `allow_loss` is False."""

    exit_code = 3


def convert(
    source: Union[str, Path],
    target: Path,
    *,
    format: Optional[str] = None,
    dtype: str = "float32",
    keep_softmax: bool = True,
    lang: Optional[str] = None,
    provenance: Optional[dict[str, Any]] = None,
    vectors: Optional[WordVectors] = None,
    allow_loss: bool = False,
    force: bool = False,
) -> tuple[ModelBundle, list[str]]:
    """Convert a model to another format.

    All checks come before the first write, and a model that cannot be written completely is not
    written at all. The attribution file is written last.

    source (Union[str, Path]): Path, name or URL.
    format (Optional[str]): The name of one of `FORMATS`. Default: the format with the suffix of the
        target; a pipeline if the target has no suffix.
    dtype (str): Type of the biLM's weights on disk: "float32", "float16" or "bfloat16".
    keep_softmax (bool): Whether to keep softmax and vocabulary. If False, they are not written, and
        do not count as a loss.
    lang (Optional[str]): Language code of the model. Default: the language in the source.
    provenance (Optional[dict]): Entries to add to the provenance. None deletes an entry.
    vectors (Optional[WordVectors]): If the source is the state dict of a CoVe encoder, the word
        vectors that the encoder reads.
    allow_loss (bool): Whether to write the model even if the format cannot store a part of it.
    RETURNS (Tuple[ModelBundle, List[str]]): The written model, and descriptions of what was lost.
    RAISES (LossError): The format cannot store a part of the model, and `allow_loss` is False.
    RAISES (ValueError): The source cannot be read, the target exists and must not be replaced, or
        the format cannot store the model.
    """
    # Follow a link first, so that softmax, options and attribution are beside the real file.
    # A device has no other files beside it.
    target = user_path(target)
    target = target if is_stream(target) else followed(target)
    chosen = _chosen_format(target, format)
    if dtype not in DTYPES:
        raise ValueError(f"the dtype must be one of {', '.join(DTYPES)}, got '{dtype}'")
    if chosen.programs and dtype != "float32":
        raise ValueError(
            f"{chosen.programs} only read float32, so {target} cannot be {dtype}. Use float32, or "
            f"another format"
        )
    # Check this before the source is read, because that may be a long download.
    _check_target(target, chosen, force)
    given = user_path(source)
    if any(_is_same(path, given) for path in chosen.targets(target)):
        raise ValueError(f"{target} is the source, or contains it. Give another name")
    if vectors is None:
        bundle = read_bundle(source, softmax=keep_softmax)
    else:
        bundle = ModelBundle(read_cove(user_path(source), vectors))
    bundle.lang = lang or bundle.lang
    chosen.check(bundle)
    patch = provenance or {}
    known = {**bundle.provenance, **({"lang": bundle.lang} if bundle.lang else {}), **patch}
    kept = {key: value for key, value in known.items() if value is not None or key not in patch}
    bundle.bilm.provenance = checked_provenance(kept, target)
    lost = chosen.losses(bundle, dtype)
    if lost and not allow_loss:
        raise LossError(
            f"{target} would lose: {'; '.join(lost)}. Nothing was written. "
            f"Set `allow_loss=True` to write it anyway"
        )
    if bundle.prediction is not None and not chosen.stores_softmax(bundle.prediction[0]):
        bundle.prediction = None
    target.parent.mkdir(parents=True, exist_ok=True)
    chosen.write(bundle, target, dtype)
    write_attribution(bundle.provenance, beside(target))
    return bundle, lost


def _chosen_format(target: Path, name: Optional[str]) -> type[Format]:
    """Return the format with this name or, without a name, with the target's suffix.

    A target without a suffix is a pipeline, the first of `FORMATS`.

    RAISES (ValueError): The name or the suffix is unknown, or they belong to different formats.
    """
    may_be_folder = name is not None or not target.suffix[1:2].isalpha()
    for format in FORMATS:
        fits = target.suffix in format.suffixes if format.suffixes else may_be_folder
        if fits and name in (None, format.name):
            return format
    files = [f"{suffix} ({format.name})" for format in FORMATS for suffix in format.suffixes]
    raise ValueError(
        f"{target} cannot be a file of {'any format' if name is None else f'format {name!r}'}. The "
        f"suffix must be {' or '.join(files)}. For a folder, set `format=pipeline` or "
        f"`format=manylangs`"
    )


def _is_same(target: Path, source: Path) -> bool:
    """Return whether a source is the file or folder `target`, or is inside it."""
    if not target.exists() or not source.exists() or is_stream(target):
        return False
    is_inside = target.is_dir() and source.resolve().is_relative_to(target.resolve())
    return is_inside or target.samefile(source)


def _check_target(target: Path, format: type[Format], force: bool) -> None:
    """Check that the target can be written.

    An existing file, or folder of a model, is replaced only with `force`. Other folders are never
    replaced, unless they are empty.

    RAISES (ValueError): A path to write exists and must not be replaced.
    """
    writes_folder = not format.suffixes
    paths = format.targets(target)
    for path in paths if writes_folder else (*paths, beside(target)):
        # The files beside a link belong to other weights than the files beside its target.
        if not writes_folder and path.is_symlink() and not is_stream(path):
            raise ValueError(
                f"{path} is a symbolic link, and would not be beside the other files of the model. "
                f"Delete the link"
            )
    if not writes_folder and beside(target).is_dir():
        raise ValueError(
            f"{beside(target)} is a folder, but the attribution goes to a file of this name. Give "
            f"another name"
        )
    for path in paths:
        is_folder = path.is_dir()
        if writes_folder and is_folder and not any(path.iterdir()):
            continue
        if not writes_folder and is_stream(path):
            continue
        if path.exists() and is_folder != writes_folder:
            raise ValueError(f"{path} is a {'folder' if is_folder else 'file'}. Give another name")
        reason = format.find_foreign(path) if is_folder else None
        if reason is not None:
            raise ValueError(f"{path} is not only a {format.contents}: {reason}. Give another name")
        if path.exists() and not force:
            raise ValueError(f"{path} exists already. Give another name, or `force=True`")
