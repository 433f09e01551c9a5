"""A folder of shards: what is to be made, and what is there."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any, Optional

from ..files import atomic_write, by_its_name, process_name, put_on_disk
from .pieces import Piece
from .plan import Plan
from .workplace import check_settings

# Readers of folders of Parquet pass over names that begin so, or with a dot.
MANIFEST = "_manifest.json"
FORMAT_VERSION = 1
UNFINISHED = ".tmp"
ADVICE = "another folder"


@dataclass(frozen=True)
class ShardFolder:
    """The shards, and `_manifest.json`: the plan, and what it was made for. A shard is done when
    it has its name; until then it stands in a folder of the process that makes it.

    folder (Path): The folder.
    suffix (str): What the names of shards end in.
    plan (List[List[Tuple[int, Piece]]]): As `make_plan` makes it.
    """

    folder: Path
    suffix: str
    plan: Plan

    def path(self, number: int) -> Path:
        """RETURNS (Path): A shard, by its number from 0."""
        return self.folder / f"part-{number:05}-of-{len(self.plan):05}{self.suffix}"

    def pieces(self, number: int) -> list[Piece]:
        """RETURNS (List[Piece]): The parts of the input that are a shard."""
        return [piece for _, piece in self.plan[number]]

    def firsts(self) -> Optional[list[int]]:
        """RETURNS (Optional[List[int]]): The number of each shard's first entry; None where the
        plan does not know how many entries there are."""
        counts = [[piece.entries for _, piece in shard] for shard in self.plan]
        if any(None in shard for shard in counts):
            return None
        return list(accumulate((sum(map(int, shard)) for shard in counts), initial=0))  # type: ignore[arg-type]

    def sweep(self) -> None:
        """Delete what killed processes have left of what is done now."""
        for path in self.folder.glob(f"*{UNFINISHED}"):
            if path.name.startswith(MANIFEST):
                path.unlink(missing_ok=True)
            elif path.with_name(path.name[1:][: len(self.path(0).name)]).exists():
                shutil.rmtree(path, ignore_errors=True)


@contextmanager
def write_shard(path: Path) -> Iterator[Path]:
    """Make a shard, which gets its name when it is on the disk. Where two processes make the same
    one, the work of one is for nothing.

    path (Path): The shard.
    YIELDS (Path): Where to write it.
    """
    place = path.with_name(f".{path.name}.{process_name()}{UNFINISHED}")
    shutil.rmtree(place, ignore_errors=True)
    try:
        with by_its_name(path):
            place.mkdir()
            yield place / "whole"
            put_on_disk(place / "whole")
            os.replace(place / "whole", path)
    except OSError:
        if not path.exists():  # else another process has made it, and may have swept
            raise
    finally:
        shutil.rmtree(place, ignore_errors=True)


def open_shards(
    folder: Path,
    suffix: str,
    settings: dict[str, Any],
    sources: Sequence[Piece],
    make_plan: Callable[[], Plan],
) -> ShardFolder:
    """Read the plan of a folder, or make one where nothing is there.

    folder (Path): The folder.
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
    return ShardFolder(folder, suffix, _read_plan(folder, settings, sources))


def _is_begun(folder: Path) -> bool:
    """Whether the manifest is there; without, there may be nothing else."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: shards stand in a folder")
    names = os.listdir(folder) if folder.exists() else []
    is_foreign = any(not name.endswith(UNFINISHED) for name in names)
    if is_foreign and not (folder / MANIFEST).exists():
        raise ValueError(f"{folder} holds something else than shards: give {ADVICE}")
    return is_foreign


def _write_manifest(
    folder: Path, settings: dict[str, Any], sources: Sequence[Piece], plan: Plan
) -> None:
    content = {
        "format_version": FORMAT_VERSION,
        "settings": settings,
        "inputs": [{"name": source.name, "size": source.size()} for source in sources],
        "shards": [[{"input": i, **_to_json(piece)} for i, piece in shard] for shard in plan],
    }
    text = json.dumps(content, indent=1) + "\n"
    with suppress(FileNotFoundError):  # another process has written the same, and swept
        atomic_write(folder / MANIFEST, text, suffix=f".{process_name()}{UNFINISHED}")


def _read_plan(folder: Path, settings: dict[str, Any], sources: Sequence[Piece]) -> Plan:
    """The plan, of the same input, which may stand elsewhere now."""
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_bytes())
        if content["format_version"] != FORMAT_VERSION:
            raise ValueError(f"not of version {FORMAT_VERSION}, which this package reads")
        check_settings(folder, dict(content["settings"]), settings, ADVICE)
        inputs = [(about["name"], about["size"]) for about in content["inputs"]]
        _check_inputs(folder, inputs, sources)
        return [
            [(about["input"], _from_json(about, sources)) for about in shard]
            for shard in content["shards"]
        ]
    except (KeyError, TypeError, AttributeError, IndexError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is no manifest of shards: {error!r}. Give {ADVICE}") from error


def _check_inputs(folder: Path, known: list[tuple[str, int]], sources: Sequence[Piece]) -> None:
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
