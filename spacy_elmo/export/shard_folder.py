"""A folder of shards: what is to be made, and what is there.

`_manifest.json` is the plan: settings, inputs, and the pieces of each shard with their checksums.
Beside each shard `NAME` stands `_NAME.json`, its record: which plan it belongs to, and the sizes
and checksums of its files. A record is written before its shard gets its name, so a shard without
one, or with another checksum, has been changed or damaged."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Optional

from typing_extensions import NotRequired

from ..files.schema import Integer, Natural, Positive, Schema, String, record, records, seal
from ..files.unfinished import is_temporary
from .folders import Folder, describe_files
from .pieces import Piece
from .plan import Plan
from .workplace import check_settings

# Readers of folders of Parquet pass over names that begin so, or with a dot.
MANIFEST = "_manifest.json"
FORMAT_VERSION = 2  # Shards of version 1 have no checksums.
ADVICE = "another folder"
PIECE = {
    "input": Natural,
    "start": Natural,
    "stop": Natural,
    "sha256": String,
    "first_line": Positive,
    "entries": NotRequired[Positive],
    "column": NotRequired[String],
    "row_groups": NotRequired[tuple[Natural, Natural]],
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
RECORD = Schema(
    {
        "format_version": Integer,
        "plan": String,
        "shard": String,
        "files": dict[str, record({"size": Natural, "sha256": String})],  # type: ignore[misc]
        "checksum": String,
    }
)


@dataclass(frozen=True)
class ShardFolder:
    """The shards, and `_manifest.json`: the plan, and what it was made for. A shard is done when
    it has its name.

    folder (Folder): The folder.
    suffix (str): What the names of shards end in.
    plan (List[List[Tuple[int, Piece]]]): As `make_plan` makes it.
    checksum (str): Checksum of the manifest.
    """

    folder: Folder
    suffix: str
    plan: Plan
    checksum: str

    def name(self, number: int) -> str:
        """RETURNS (str): Name of a shard, by its number from 0."""
        return f"part-{number:05}-of-{len(self.plan):05}{self.suffix}"

    def firsts(self) -> Optional[list[int]]:
        """RETURNS (Optional[List[int]]): The number of each shard's first entry; None where the
        plan does not know how many entries there are."""
        counts = [[piece.entries for _, piece in shard] for shard in self.plan]
        if any(None in shard for shard in counts):
            return None
        return list(accumulate((sum(map(int, shard)) for shard in counts), initial=0))  # type: ignore[arg-type]

    def sweep(self) -> None:
        """Delete what killed processes have left of what is done now."""
        names = self.folder.names()
        for name in names:
            if is_temporary(name):
                shard = name.lstrip("._")[: len(self.name(0))]
                if shard in names or MANIFEST in name:
                    self.folder.delete(name)


def write_record(folder: Folder, name: str, plan: str, shard: Path) -> None:
    """Write the record of a shard, before the shard gets its name.

    folder (Folder): The folder.
    name (str): The shard's name.
    plan (str): Checksum of the manifest.
    shard (Path): The file or folder that gets the name.
    """
    content = {"plan": plan, "shard": name, "files": describe_files(shard)}
    sealed = seal({"format_version": FORMAT_VERSION, **content})
    folder.write(_record_name(name), json.dumps(sealed, indent=1) + "\n")


def find_problem(folder: Folder, name: str, plan: str) -> Optional[str]:
    """Compare a shard with its record.

    folder (Folder): The folder.
    name (str): The name of a shard that is there.
    plan (str): Checksum of the manifest.
    RETURNS (Optional[str]): What is wrong; None if it is whole.
    """
    try:
        content = RECORD.read_sealed(folder.read(_record_name(name)), FORMAT_VERSION)
        if (content["plan"], content["shard"]) != (plan, name):
            raise ValueError("it belongs to another shard")
        problem = folder.compare(name, content["files"])
    except (ValueError, OSError) as error:
        problem = f"{_record_name(name)} cannot be used ({error})"
    return problem and f"{problem}. Delete this shard, and the same call makes it again"


def _record_name(name: str) -> str:
    return f"_{name}.json"


def open_shards(
    folder: Folder,
    suffix: str,
    settings: dict[str, Any],
    sources: Sequence[Piece],
    make_plan: Callable[[], Plan],
) -> ShardFolder:
    """Read the plan of a folder, or make one where nothing is there.

    folder (Folder): The folder.
    suffix (str): What the names of shards end in.
    settings (dict): What the shards depend on beside the input, as JSON.
    sources (Sequence[Piece]): The input, whole files.
    make_plan (Callable[[], Plan]): Cuts the input.
    RETURNS (ShardFolder): The folder.
    RAISES (ValueError): It is not ours, or was begun with other settings or input.
    """
    if not _is_begun(folder):
        plan = make_plan()
        if not plan:
            raise ValueError(f"no sentence in {', '.join(map(str, sources[:5]))}")
        if not _is_begun(folder):  # another process may have made the same
            _write_manifest(folder, settings, sources, plan)
    return ShardFolder(folder, suffix, *_read_plan(folder, settings, sources))


def _is_begun(folder: Folder) -> bool:
    """Whether the manifest is there; without, there may be nothing else."""
    names = {name for name in folder.names() if not is_temporary(name)}
    if names and MANIFEST not in names:
        raise ValueError(f"{folder} holds something else than shards: give {ADVICE}")
    return bool(names)


def _write_manifest(
    folder: Folder, settings: dict[str, Any], sources: Sequence[Piece], plan: Plan
) -> None:
    content = {
        "format_version": FORMAT_VERSION,
        "settings": settings,
        "inputs": [{"name": source.name, "size": source.size()} for source in sources],
        "shards": [[{"input": i, **_to_json(piece)} for i, piece in shard] for shard in plan],
    }
    folder.write(MANIFEST, json.dumps(seal(content), indent=1) + "\n")


def _read_plan(
    folder: Folder, settings: dict[str, Any], sources: Sequence[Piece]
) -> tuple[Plan, str]:
    """Read the plan, whose input may be elsewhere now, and the checksum of the manifest."""
    try:
        content = PLAN.read_sealed(folder.read(MANIFEST), FORMAT_VERSION)
    except ValueError as error:
        raise ValueError(f"{folder}/{MANIFEST} cannot be used: {error}. Give {ADVICE}") from error
    check_settings(folder, content["settings"], settings, ADVICE)
    _check_inputs(folder, [(about["name"], about["size"]) for about in content["inputs"]], sources)
    plan = [
        [(about["input"], _from_json(about, sources)) for about in shard]
        for shard in content["shards"]
    ]
    return plan, content["checksum"]


def _check_inputs(folder: Folder, known: list[tuple[str, int]], sources: Sequence[Piece]) -> None:
    if len(known) != len(sources):
        raise ValueError(
            f"{folder} was begun with {len(known)} input files, not with {len(sources)}: give the "
            f"same, or {ADVICE}"
        )
    for source, (name, size) in zip(sources, known):
        found = source.size()
        if (source.name, found) != (name, size):
            raise ValueError(
                f"{folder} was begun with {name} of {size:,} bytes, and {source} has {found:,}: "
                f"give the same, or {ADVICE}"
            )


def _to_json(piece: Piece) -> dict[str, Any]:
    return {name: v for name, v in asdict(piece).items() if name != "source" and v is not None}


def _from_json(about: dict[str, Any], sources: Sequence[Piece]) -> Piece:
    values = {name: value for name, value in about.items() if name != "input"}
    if "row_groups" in values:
        values["row_groups"] = tuple(values["row_groups"])
    return Piece(source=sources[about["input"]].source, **values)
