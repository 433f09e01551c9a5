"""Resumable folder of shards that several processes write at the same time.

`_manifest.json` contains the plan: settings, inputs, and for each shard its parts of the input
with checksums. Each shard `NAME` has a record `_NAME.json`: the checksum of the plan, the counts,
and size and checksum of each file of the shard.

A shard is complete when it has its final name. There is no list of complete shards, so processes
need no lock and a killed process leaves nothing to repair.

Invariant: the record is written before the shard gets its final name. So a shard without a record,
or with another checksum, was changed or damaged.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, Optional

from ..files import schema
from ..files.paths import OF_FILE_MANAGERS
from ..files.unfinished import is_temporary
from ..text.manifest import setting_differences
from .entries import EntryCounts
from .folders import Folder, LocalFolder, describe_files
from .outputs import OUTPUTS
from .pieces import InputPiece
from .plan import Plan
from .spacy_output import find_foreign

# Readers of Parquet folders skip names that begin with "_" or a dot.
MANIFEST = "_manifest.json"
FORMAT_VERSION = 1
_SUFFIXES = "|".join(re.escape(kind.SUFFIXES[0]) for kind in OUTPUTS.values())
_SHARD = re.compile(rf"part-(\d{{5,}})-of-(\d{{5,}})({_SUFFIXES})")
ADVICE = (
    "Use the same settings and input, choose another output, or start again with `force=True` and "
    "without `resume=True`."
)
# The checksum covers the other keys, so their types are not checked.
SEALED = schema.Schema({"format_version": schema.Integer, "checksum": schema.String})


class ShardFolder(NamedTuple):
    """Folder of shards with its plan. It names, checks and counts the shards.

    folder (Folder): The folder.
    suffix (str): Suffix of the shards' names.
    plan (List[List[InputPiece]]): The result of `make_plan`.
    checksum (str): Checksum of the manifest.
    """

    folder: Folder
    suffix: str
    plan: Plan
    checksum: str

    def name(self, number: int) -> str:
        """Return the name of a shard. Numbers start at 0."""
        return f"{_stem(number, len(self.plan))}{self.suffix}"

    def firsts(self) -> Optional[list[int]]:
        """Return the index of each shard's first entry in the whole output; None if unknown."""
        counts = [[piece.entries for piece in shard] for shard in self.plan]
        if any(None in shard for shard in counts):
            return None
        return list(accumulate((sum(map(int, shard)) for shard in counts), initial=0))  # type: ignore[arg-type]

    def sweep(self) -> None:
        """Delete the temporary files of killed processes, if their shards are complete now."""
        names = self.folder.names()
        for name in filter(is_temporary, names):
            shard = name.lstrip("._")[: len(self.name(0))]
            if shard in names or MANIFEST in name:
                self.folder.delete(name)

    def find_problem(self, name: str) -> Optional[str]:
        """Compare an existing shard with its record.

        name (str): Name of the shard.
        RETURNS (Optional[str]): Description of the problem; None if the shard is unchanged.
        """
        try:
            files = self._read_record(name)["files"]
        except (ValueError, OSError) as error:
            return f"{_record_name(name)} cannot be used ({error})"
        try:
            return self.folder.compare(name, files)
        except (ValueError, OSError) as error:
            return f"it cannot be read ({error})"

    def counts(self) -> EntryCounts:
        """Return the sum of the counts of all shards. All shards must exist."""
        counts = EntryCounts()
        for number in range(len(self.plan)):
            counts += EntryCounts(**self._read_record(self.name(number))["counts"])
        return counts

    def _read_record(self, name: str) -> dict[str, Any]:
        content = SEALED.read_sealed(self.folder.read(_record_name(name)), FORMAT_VERSION)
        if (content["plan"], content["shard"]) != (self.checksum, name):
            raise ValueError("the record belongs to another shard")
        return content


def write_record(folder: Folder, name: str, plan: str, shard: Path, counts: EntryCounts) -> None:
    """Write the record of a shard. Call it before the shard gets its final name.

    folder (Folder): The folder.
    name (str): Final name of the shard.
    plan (str): Checksum of the manifest.
    shard (Path): The shard under its temporary name.
    counts (EntryCounts): Counts of the shard.
    """
    files = describe_files(shard)
    content = {"plan": plan, "shard": name, "files": files, "counts": asdict(counts)}
    sealed = schema.seal({"format_version": FORMAT_VERSION, **content})
    folder.write(_record_name(name), json.dumps(sealed, indent=1) + "\n")


def _record_name(name: str) -> str:
    return f"_{name}.json"


def open_shards(
    folder: Folder,
    suffix: str,
    settings: dict[str, Any],
    sources: Sequence[InputPiece],
    make_plan: Callable[[], Plan],
) -> ShardFolder:
    """Read the plan of a folder, or make one for an empty folder.

    folder (Folder): The folder.
    suffix (str): Suffix of the shards' names.
    settings (dict): All settings that change the shards, as a JSON object.
    sources (Sequence[InputPiece]): The whole input files.
    make_plan (Callable[[], Plan]): Returns a new plan; called if the folder is empty.
    RETURNS (ShardFolder): The folder.
    RAISES (ValueError): The folder contains other files, or was started with other settings or
        input.
    """
    if not _is_begun(folder):
        plan = make_plan()
        if not plan:
            raise no_sentence(sources)
        if not _is_begun(folder):  # Another process may have written the same plan.
            content: dict[str, Any] = {
                "format_version": FORMAT_VERSION,
                "settings": settings,
                "inputs": [
                    {"name": source.name, "size": source.size(), "given": source.label}
                    for source in sources
                ],
                "shards": [list(map(_to_json, shard)) for shard in plan],
            }
            folder.write(MANIFEST, json.dumps(schema.seal(content), indent=1) + "\n")
    try:
        content = SEALED.read_sealed(folder.read(MANIFEST), FORMAT_VERSION)
    except ValueError as error:
        raise ValueError(
            f"{folder}/{MANIFEST} cannot be used: {error}. Choose another output, or start again "
            f"with `force=True`."
        ) from error
    known = [f"{about['name']} of {about['size']:,} bytes" for about in content["inputs"]]
    found = [f"{source.name} of {source.size():,} bytes" for source in sources]
    check_settings(folder, content["settings"], settings)
    if known != found:
        pairs = zip([*known, "nothing"], [*found, "nothing"])
        before, now = next(pair for pair in pairs if pair[0] != pair[1])
        raise ValueError(f"{folder} was started with other input: {now}, not {before}. {ADVICE}")
    # Files may have moved, but all shards name them as at the first run.
    sources = [
        replace(source, given=about["given"]) for source, about in zip(sources, content["inputs"])
    ]
    plan = [[_from_json(about, sources) for about in shard] for shard in content["shards"]]
    return ShardFolder(folder, suffix, plan, content["checksum"])


def no_sentence(sources: Sequence[InputPiece]) -> ValueError:
    """Make the error for input files without a sentence."""
    return ValueError(f"no sentence in {', '.join(map(str, sources[:5]))}. Give files with text.")


def check_settings(folder: object, known: dict[str, Any], settings: dict[str, Any]) -> None:
    """Check that a resumed run has the same settings as the first run.

    folder (object): The output, for error messages.
    known (dict): The settings of the first run.
    settings (dict): The settings of this run.
    RAISES (ValueError): The settings differ.
    """
    different = setting_differences(known, settings)
    if different:
        raise ValueError(
            f"{folder} was started with other settings: {'; '.join(different)}. {ADVICE}"
        )


def find_replaceable(folder: Folder) -> list[str]:
    """Return the names of all shards and records of a folder, with its manifest last.

    folder (Folder): The folder.
    RETURNS (List[str]): The names, in the order in which a run that begins again deletes them.
    RAISES (ValueError): The folder contains files that `embed` does not write.
    """
    names = folder.names() - {*OF_FILE_MANAGERS} if _is_begun(folder) else set()
    n_shards = _n_shards(folder) if names else None
    for name in names:
        inner = folder.path / name if isinstance(folder, LocalFolder) else None
        is_shard = _is_shard(name, n_shards)
        is_record = name[0] == "_" and _is_shard(name[1:].removesuffix(".json"), n_shards)
        is_file = (is_record and name.endswith(".json")) or name == MANIFEST
        is_ours = is_temporary(name) or is_shard or is_file
        inside = None
        if is_ours and (is_shard or is_file) and inner is not None and inner.is_dir():
            is_ours, inside = is_shard, find_foreign(inner)
        if not is_ours or inside is not None:
            place = name if inside is None else f"{name}/{inside}"
            raise ValueError(
                f"{folder} contains a file that is not a shard: {place}. Choose another output."
            )
    return sorted(names, key=lambda name: (name == MANIFEST, name[0] == "_"))


def _n_shards(folder: Folder) -> Optional[int]:
    """Return the number of shards in the manifest; None if the manifest cannot be used."""
    try:
        return len(SEALED.read_sealed(folder.read(MANIFEST), FORMAT_VERSION)["shards"])
    except (ValueError, KeyError, TypeError, OSError):
        return None


def _is_shard(name: str, n_shards: Optional[int]) -> bool:
    """Return whether a name is the name of one of `n_shards` shards."""
    found = _SHARD.fullmatch(name)
    if found is None:
        return False
    number, total = int(found[1]), int(found[2])
    return number < total == (n_shards or total) and name.startswith(_stem(number, total))


def _stem(number: int, n_shards: int) -> str:
    return f"part-{number:05}-of-{n_shards:05}"


def _is_begun(folder: Folder) -> bool:
    """Return whether the manifest exists. Raise an error if other files exist without it."""
    names = {name for name in folder.names() if not is_temporary(name)} - {*OF_FILE_MANAGERS}
    if names and MANIFEST not in names:
        raise ValueError(
            f"{folder} contains files that are not shards, such as {min(names)}. Choose another "
            f"output."
        )
    return bool(names)


def _to_json(piece: InputPiece) -> dict[str, Any]:
    of_file = ("source", "given", "input_format")
    return {name: v for name, v in asdict(piece).items() if name not in of_file and v is not None}


def _from_json(about: dict[str, Any], sources: Sequence[InputPiece]) -> InputPiece:
    """Make an InputPiece from the manifest. The file itself is from `sources`."""
    if "row_groups" in about:
        about = {**about, "row_groups": tuple(about["row_groups"])}
    file = sources[about["input"]]
    return InputPiece(file.source, input_format=file.input_format, given=file.given, **about)
