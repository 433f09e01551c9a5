"""From a model and text of any size to a folder of shards, by as many processes as there are."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Optional, Union

import torch

from ..files import full_disk, progress_bar
from ..text.reading import Inputs
from ..text.workers import map_in_order, parse_worker
from .embedder import Embedder
from .entries import Entry
from .inputs import find_inputs, read_entries
from .job import MAX_TOKENS, Counts, check_wanted
from .outputs import OUTPUTS, check_format
from .pieces import Piece
from .plan import make_plan
from .shard_folder import open_shards, write_shard

SHOWN = 20  # shards that could not be made


@dataclass(frozen=True)
class _Job:
    """What is the same for all shards."""

    embedder: Embedder
    settings: dict[str, Any]
    max_tokens: int
    n_threads: Optional[int]


def embed_shards(
    model: str,
    inputs: Inputs,
    output: Path,
    *,
    shards: int,
    workers: int = 1,
    worker: Optional[str] = None,
    format: Optional[str] = None,
    tokenize: bool = False,
    column: Optional[str] = None,
    max_tokens: int = MAX_TOKENS,
    sentence_index: bool = True,
    sentence_keys: bool = False,
    **settings: Any,
) -> Counts:
    """Write the vectors of text to a folder, a file for each part of the text. Stopped at any
    moment, the same call goes on: a shard that is there is done. Several processes may work on
    one folder at once.

    model (str): As of `embed_files`.
    inputs (Union[str, Path, Iterable[Union[str, Path]]]): As of `embed_files`; and URLs, as
        `fsspec` reads them.
    output (Path): The folder, on this machine.
    shards (int): Most shards.
    workers (int): Processes on this machine; more than one have a thread each.
    worker (Optional[str]): "K/N": this is the K-th of N calls, each of which makes every N-th
        shard.
    format (Optional[str]): As of `embed_files`; by default what the folder's name ends in, or
        "parquet".
    tokenize (bool): As of `embed_files`, and so are the rest.
    settings: Others of `Embedder`.
    RETURNS (Counts): How much this call embedded.
    RAISES (ValueError): A setting is impossible, the model cannot be read, the folder is not
        ours or was begun with other settings; or, after all other shards were made, some input
        could not be read or has changed.
    RAISES (OSError): The disk is full, or a process was ended from outside.
    """
    format = check_format(output, format or _format_of(output))
    if shards < 1 or workers < 1:
        raise ValueError(f"--shards and --workers must be 1 or more, got {min(shards, workers)}")
    first, step = parse_worker(worker)
    embedder = Embedder(model, **settings)
    check_wanted(embedder, format, max_tokens=max_tokens, sentence_keys=sentence_keys)
    found = find_inputs(inputs, output, column)
    sources = [file if isinstance(file, Piece) else Piece(str(file)) for file in found]
    described = {
        **embedder.describe(),
        "format": format,
        "tokenize": tokenize,
        "column": column,
        "shards": shards,
        "sentence_index": sentence_index,
        "sentence_keys": sentence_keys,
    }
    plan = partial(make_plan, sources, shards, tokenize=tokenize, column=column)
    folder = open_shards(output, OUTPUTS[format].SUFFIXES[0], described, sources, plan)
    job = _Job(embedder, described, max_tokens, n_threads=1 if workers > 1 else None)
    firsts = folder.firsts()
    mine = range(first, len(folder.plan), step)
    tasks = [
        (path, (job, path, folder.pieces(number), firsts[number] if firsts else None))
        for number, path in ((number, folder.path(number)) for number in mine)
        if not path.exists()
    ]
    counts, failed = Counts(0, 0), []
    n_done = len(mine) - len(tasks)
    with (
        full_disk(output),
        progress_bar(len(mine), "Shards", "shard", initial=n_done) as bar,
    ):
        for path, result in map_in_order(_make_shard, tasks, workers):
            if isinstance(result, str):
                failed.append(f"{path.name}: {result}")
            else:
                counts = Counts(counts.entries + result.entries, counts.tokens + result.tokens)
            bar.update()
    folder.sweep()
    if failed:
        more = f"\nand {len(failed) - SHOWN:,} more" if len(failed) > SHOWN else ""
        raise ValueError(
            f"{len(failed):,} of {len(mine):,} shards could not be made; the others are there\n"
            + "\n".join(failed[:SHOWN])
            + more
        )
    return counts


def _format_of(output: Path) -> str:
    """What the folder's name ends in, if it is a format."""
    suffix = output.suffix.lower() or ".parquet"
    return next((name for name, kind in OUTPUTS.items() if suffix in kind.SUFFIXES), "parquet")


def _make_shard(
    job: _Job, path: Path, pieces: Sequence[Piece], first: Optional[int]
) -> Union[Counts, str]:
    """Make a shard, in any process; what was embedded, or why it cannot be made."""
    embedder = job.embedder
    if job.n_threads is not None:
        torch.set_num_threads(job.n_threads)
        embedder = _loaded_once(embedder)
    settings, counted = job.settings, _Counter()
    try:
        if not embedder.describe().items() <= settings.items():
            raise ValueError(f"the model {embedder.model} has changed since this run was begun")
        maker = embedder.maker(keep_docs=settings["format"] == "spacy")
        more: dict[str, Any] = {"sentence_keys": True} if settings["sentence_keys"] else {}
        if settings["format"] == "parquet":
            more["empty"] = embedder.empty
        entries = read_entries(
            pieces,
            maker,
            tokenize=settings["tokenize"],
            column=settings["column"],
            max_tokens=job.max_tokens,
            progress=lambda _: None,
        )
        with write_shard(path) as whole:
            OUTPUTS[settings["format"]].write(
                whole,
                embedder.embed(counted.count(entries)),
                {**settings, "shard": path.name, "first": first},
                index=settings["sentence_index"],
                first=first or 0,
                **more,
            )
    except ValueError as error:
        return str(error)
    return Counts(counted.entries, counted.tokens)


class _Counter:
    """Counts entries that go by, and their tokens."""

    def __init__(self) -> None:
        self.entries = self.tokens = 0

    def count(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        for entry in entries:
            self.entries += 1
            self.tokens += len(entry)
            yield entry


@lru_cache(maxsize=1)
def _loaded_once(embedder: Embedder) -> Embedder:
    """Of equal ones, each a copy that came with a task, the first, which has read the model."""
    return embedder
