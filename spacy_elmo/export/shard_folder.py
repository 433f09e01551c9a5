"""Folder of shards, which any number of processes write, and which can be resumed.

`_manifest.json` is the plan: settings, inputs, and the pieces of each shard with their checksums.
Beside each shard `NAME` is `_NAME.json`, its record: the plan that it belongs to, its counts, and
sizes and checksums of its files. A record is written before its shard gets its name. So a shard
without a record, or with another checksum, has been changed or damaged.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Optional

from typing_extensions import NotRequired

from ..files.schema import (
    Boolean,
    Integer,
    Natural,
    Positive,
    Schema,
    String,
    record,
    records,
    seal,
)
from ..files.unfinished import is_temporary
from .entries import EntryCounts
from .places import Folder, InputPiece, LocalFolder, describe_files
from .plan import Plan
from .spacy_output import is_foreign

# Readers of Parquet folders skip names that begin with "_" or a dot.
MANIFEST = "_manifest.json"
FORMAT_VERSION = 2  # Shards of version 1 have no checksums.
OURS = re.compile(r"_?part-\d{5,}-of-\d{5,}(\.\w+)*")
ADVICE = "Give the same, another output, or begin again with `force=True` and no `resume=True`."
PIECE = {
    "input": Natural,
    "start": Natural,
    "stop": Natural,
    "sha256": String,
    "first_line": Positive,
    "entries": NotRequired[Positive],
    "column": NotRequired[String],
    "row_groups": NotRequired[tuple[Natural, Natural]],
    "unpacked": NotRequired[Boolean],
}
PLAN = Schema(
    {
        "format_version": Integer,
        "settings": dict[str, Any],
        "inputs": records({"name": String, "size": Natural}),
        "shards": list[records(PIECE)],  # type: ignore[misc]
        "checksum": String,
    }
)
# Earlier versions did not write the counts.
COUNTS = NotRequired[record({"entries": Natural, "tokens": Natural, "vectors": Natural})]  # type: ignore[misc]
RECORD = Schema(
    {
        "format_version": Integer,
        "plan": String,
        "shard": String,
        "files": dict[str, record({"size": Natural, "sha256": String})],  # type: ignore[misc]
        "counts": COUNTS,
        "checksum": String,
    }
)


@dataclass(frozen=True)
class ShardFolder:
    """Shards and their plan. A shard is done when it has its name.

    folder (Folder): The folder.
    suffix (str): Ending of the shards' names.
    plan (List[List[InputPiece]]): The plan of `make_plan`.
    checksum (str): Checksum of the manifest.
    """

    folder: Folder
    suffix: str
    plan: Plan
    checksum: str

    def name(self, number: int) -> str:
        """Return the name of a shard, by its number from 0."""
        return f"part-{number:05}-of-{len(self.plan):05}{self.suffix}"

    def firsts(self) -> Optional[list[int]]:
        """Return the number of each shard's first entry; None if the plan does not know it."""
        counts = [[piece.entries for piece in shard] for shard in self.plan]
        if any(None in shard for shard in counts):
            return None
        return list(accumulate((sum(map(int, shard)) for shard in counts), initial=0))  # type: ignore[arg-type]

    def sweep(self) -> None:
        """Delete leftovers of killed processes, if their shards are done."""
        names = self.folder.names()
        for name in filter(is_temporary, names):
            shard = name.lstrip("._")[: len(self.name(0))]
            if shard in names or MANIFEST in name:
                self.folder.delete(name)

    def find_problem(self, name: str) -> Optional[str]:
        """Compare a shard with its record.

        name (str): The name of a shard that is there.
        RETURNS (Optional[str]): What is wrong; None if it is whole.
        """
        try:
            return self.folder.compare(name, self._read_record(name)["files"])
        except (ValueError, OSError) as error:
            return f"{_record_name(name)} cannot be used ({error})"

    def counts(self) -> EntryCounts:
        """Return the counts of all shards, which must exist."""
        counts = EntryCounts()
        for number in range(len(self.plan)):
            counts += EntryCounts(**self._read_record(self.name(number))["counts"])
        return counts

    def _read_record(self, name: str) -> dict[str, Any]:
        content = RECORD.read_sealed(self.folder.read(_record_name(name)), FORMAT_VERSION)
        if (content["plan"], content["shard"]) != (self.checksum, name):
            raise ValueError("it belongs to another shard")
        return content


def write_record(folder: Folder, name: str, plan: str, shard: Path, counts: EntryCounts) -> None:
    """Write the record of a shard, before the shard gets its name.

    folder (Folder): The folder.
    name (str): The shard's name.
    plan (str): Checksum of the manifest.
    shard (Path): The file or folder that gets the name.
    counts (EntryCounts): Its counts.
    """
    files = describe_files(shard)
    content = {"plan": plan, "shard": name, "files": files, "counts": asdict(counts)}
    sealed = seal({"format_version": FORMAT_VERSION, **content})
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
    suffix (str): Ending of the shards' names.
    settings (dict): What the shards depend on beside the input, as JSON.
    sources (Sequence[InputPiece]): The input, whole files.
    make_plan (Callable[[], Plan]): Cuts the input.
    RETURNS (ShardFolder): The folder.
    RAISES (ValueError): It has other files, or was begun with other settings or input.
    """
    if not _is_begun(folder):
        plan = make_plan()
        if not plan:
            raise ValueError(
                f"no sentence in {', '.join(map(str, sources[:5]))}. Give files with text."
            )
        if not _is_begun(folder):  # another process may have made the same plan
            content: dict[str, Any] = {
                "format_version": FORMAT_VERSION,
                "settings": settings,
                "inputs": [{"name": source.name, "size": source.size()} for source in sources],
                "shards": [list(map(_to_json, shard)) for shard in plan],
            }
            folder.write(MANIFEST, json.dumps(seal(content), indent=1) + "\n")
    try:
        content = PLAN.read_sealed(folder.read(MANIFEST), FORMAT_VERSION)
    except ValueError as error:
        raise ValueError(
            f"{folder}/{MANIFEST} cannot be used: {error}. Give another output, or begin again "
            f"with `force=True`."
        ) from error
    known = [f"{about['name']} of {about['size']:,} bytes" for about in content["inputs"]]
    found = [f"{source.name} of {source.size():,} bytes" for source in sources]
    check_settings(folder, content["settings"], settings)
    if known != found:
        pairs = zip([*known, "nothing"], [*found, "nothing"])
        before, now = next(pair for pair in pairs if pair[0] != pair[1])
        raise ValueError(f"{folder} was begun with other input: {now}, and was {before}. {ADVICE}")
    plan = [[_from_json(about, sources) for about in shard] for shard in content["shards"]]
    return ShardFolder(folder, suffix, plan, content["checksum"])


def check_settings(folder: object, known: dict[str, Any], settings: dict[str, Any]) -> None:
    """Check that a run is resumed with its first settings.

    folder (object): The output, for errors.
    known (dict): The settings of the first run.
    settings (dict): The settings of this run.
    RAISES (ValueError): They differ.
    """
    different = [
        f"{name} is {settings.get(name)!r}, and was {known.get(name)!r}"
        for name in {**known, **settings}
        if known.get(name) != settings.get(name)
    ]
    if different:
        raise ValueError(
            f"{folder} was begun with other settings: {'; '.join(different)}. {ADVICE}"
        )


def clear(folder: Folder) -> None:
    """Delete all shards of a folder, and the manifest last.

    folder (Folder): The folder.
    RAISES (ValueError): It has files that `embed` does not write. Nothing is deleted.
    """
    names = folder.names() if _is_begun(folder) else set()
    for name in names:
        inner = folder.path / name if isinstance(folder, LocalFolder) else None
        is_ours = is_temporary(name) or name == MANIFEST or OURS.fullmatch(name)
        if not is_ours or (inner and inner.is_dir() and OURS.fullmatch(name) and is_foreign(inner)):
            raise ValueError(
                f"{folder} contains a file that is no shard, {name}. Give another output."
            )
    for name in sorted(names, key=lambda name: (name == MANIFEST, name[0] == "_")):
        folder.delete(name)


def _is_begun(folder: Folder) -> bool:
    """Return whether the manifest is there. Without it, the folder must be empty."""
    names = {name for name in folder.names() if not is_temporary(name)}
    if names and MANIFEST not in names:
        raise ValueError(f"{folder} contains files that are no shards. Give another output.")
    return bool(names)


def _to_json(piece: InputPiece) -> dict[str, Any]:
    return {name: v for name, v in asdict(piece).items() if name != "source" and v is not None}


def _from_json(about: dict[str, Any], sources: Sequence[InputPiece]) -> InputPiece:
    """Make a piece of an input file, which may have moved."""
    if "row_groups" in about:
        about = {**about, "row_groups": tuple(about["row_groups"])}
    return InputPiece(source=sources[about["input"]].source, **about)
