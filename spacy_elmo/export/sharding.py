"""From a model and text of any size to a folder of shards, by as many processes as there are."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Optional, Union

from ..files import full_disk, progress_bar, user_path
from ..files.remote import is_url
from ..frozen.threads import limit_threads
from ..text.reading import Inputs
from ..text.workers import map_in_order, parse_worker
from .embedder import Embedder
from .entries import Counts
from .folders import Folder, RemoteFolder, open_folder
from .inputs import find_inputs, read_entries
from .job import MAX_TOKENS, check_labels, check_wanted, warn_of_nothing
from .outputs import OUTPUTS, check_format
from .pieces import Piece
from .plan import make_plan
from .ray_workers import map_with_ray
from .shard_folder import find_problem, open_shards, write_record
from .workplace import check_settings

SHOWN = 20  # shards that could not be made


@dataclass(frozen=True)
class _Job:
    """What is the same for all shards."""

    folder: Folder
    plan: str  # checksum of the manifest
    embedder: Embedder
    settings: dict[str, Any]
    max_tokens: int
    n_threads: Optional[int]


def embed_shards(
    model: str,
    inputs: Inputs,
    output: Union[str, Path],
    *,
    shards: int,
    workers: Union[int, str] = 1,
    worker: Optional[str] = None,
    address: Optional[str] = None,
    gpus_per_worker: float = 0,
    format: Optional[str] = None,
    tokenize: bool = False,
    column: Optional[str] = None,
    max_tokens: int = MAX_TOKENS,
    sentence_index: bool = True,
    sentence_keys: bool = False,
    **options: Any,
) -> Counts:
    """Write the vectors of text to a folder, a file for each part of the text. Stopped at any
    moment, the same call goes on: a shard that is there is done, if its checksum is right. Several
    processes may work on one folder at once.

    model (str): As of `embed_files`.
    inputs (Union[str, Path, Iterable[Union[str, Path]]]): As of `embed_files`; and URLs, as
        `fsspec` reads them.
    output (Union[str, Path]): The folder, or a URL as `fsspec` writes to it.
    shards (int): Most shards.
    workers (Union[int, str]): Processes on this machine; more than one have a thread each. "ray":
        the actors of a Ray cluster, a thread each, which reach model, input and output under the
        same names.
    worker (Optional[str]): "K/N": this is the K-th of N calls, each of which makes every N-th
        shard.
    address (Optional[str]): Of the Ray cluster, as `ray.init` takes it.
    gpus_per_worker (float): GPUs that an actor of Ray has to itself; then the model is there.
    format (Optional[str]): As of `embed_files`; by default what the folder's name ends in, or
        "parquet".
    tokenize (bool): As of `embed_files`, and so are the rest.
    options: Others of `Embedder`.
    RETURNS (Counts): How much this call embedded.
    RAISES (ValueError): A setting is impossible, the model cannot be read, the folder is not
        ours or was begun with other settings; or, after all other shards were made, some input
        could not be read or has changed, or a shard that was there is damaged.
    RAISES (ImportError): Ray is wanted, and not installed.
    RAISES (OSError): The disk is full, or a process was ended from outside.
    """
    output = output if is_url(output) else user_path(output)
    if workers == "ray":  # its actors stand in folders of their own
        output = output if is_url(output) else Path(output).absolute()
        model = str(user_path(model).absolute()) if user_path(model).exists() else model
    format = check_format(Path(output), format or _format_of(Path(output)))
    folder = open_folder(output)
    call = _caller(workers, address, gpus_per_worker)
    if shards < 1:
        raise ValueError(f"`shards` must be 1 or more, got {shards}")
    if format == "spacy" and isinstance(folder, RemoteFolder):
        raise ValueError(
            f"{output}: Docs are written to folders of this machine; set another `format`"
        )
    first, step = parse_worker(worker)
    embedder = Embedder(model, **options)
    check_wanted(embedder, format, max_tokens=max_tokens, sentence_keys=sentence_keys)
    sources = find_inputs(inputs, output, column)
    check_labels(embedder, sources)
    if workers == "ray":
        sources = [source.absolute() for source in sources]
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
    all_shards = open_shards(folder, OUTPUTS[format].SUFFIXES[0], described, sources, plan)
    firsts, done = all_shards.firsts(), folder.names()
    mine = range(first, len(all_shards.plan), step)
    n_threads = None if workers == 1 else 1
    job = _Job(folder, all_shards.checksum, embedder, described, max_tokens, n_threads)
    if workers == "ray":
        job = replace(job, embedder=replace(embedder, device="cuda" if gpus_per_worker else None))
    tasks = []
    for number in mine:
        name, pieces = all_shards.name(number), [piece for _, piece in all_shards.plan[number]]
        if name not in done:
            tasks.append((name, (job, name, pieces, firsts[number] if firsts else None)))
    counts, failed = Counts(), []
    with full_disk(output), progress_bar(len(mine), "Shards", "shard") as bar:
        for name in sorted(done & {all_shards.name(number) for number in mine}):
            if problem := find_problem(folder, name, all_shards.checksum):
                failed.append(f"{name}: {problem}")
            bar.update()
        for name, result in call(_make_shard, tasks):
            if isinstance(result, str):
                failed.append(f"{name}: {result}")
            else:
                counts += result
            bar.update()
    all_shards.sweep()
    if failed:
        more = f"\nand {len(failed) - SHOWN:,} more" if len(failed) > SHOWN else ""
        raise ValueError(
            f"{len(failed):,} of {len(mine):,} shards could not be made or are damaged; the "
            f"others are there\n" + "\n".join(sorted(failed)[:SHOWN]) + more
        )
    if len(tasks) == len(all_shards.plan):
        warn_of_nothing(embedder, counts)
    return counts


def _format_of(output: Path) -> str:
    """What the folder's name ends in, if it is a format."""
    suffix = output.suffix.lower() or ".parquet"
    return next((name for name, kind in OUTPUTS.items() if suffix in kind.SUFFIXES), "parquet")


def _caller(
    workers: Union[int, str], address: Optional[str], gpus_per_worker: float
) -> Callable[..., Iterator[tuple[str, Union[Counts, str]]]]:
    """What calls a function on all tasks."""
    if workers == "ray":
        return partial(map_with_ray, address=address, gpus_per_worker=gpus_per_worker)
    if address is not None or gpus_per_worker:
        raise ValueError("`address` and `gpus_per_worker` are for `workers=ray`")
    if isinstance(workers, str) or workers < 1:
        raise ValueError(f"`workers` must be 1 or more, or 'ray', got {workers}")
    return partial(map_in_order, n_process=workers)


def _make_shard(
    job: _Job, name: str, pieces: Sequence[Piece], first: Optional[int]
) -> Union[Counts, str]:
    """Make a shard, in any process; what was embedded, or why it cannot be made."""
    embedder = job.embedder
    if job.n_threads is not None:
        limit_threads(job.n_threads)
        embedder = _loaded_once(embedder)
    settings, counts = job.settings, Counts()
    try:
        described = embedder.describe()
        known = {name: settings[name] for name in described}
        check_settings(job.folder, known, described, "the model as it was")
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
        with job.folder.writing(name) as whole:
            OUTPUTS[settings["format"]].write(
                whole,
                embedder.embed(counts.of(entries)),
                {**settings, "shard": name, "first": first},
                index=settings["sentence_index"],
                first=first or 0,
                **more,
            )
            write_record(job.folder, name, job.plan, whole)
    except ValueError as error:
        return str(error)
    return counts


@lru_cache(maxsize=1)
def _loaded_once(embedder: Embedder) -> Embedder:
    """Of equal ones, each a copy that came with a task, the first, which has read the model."""
    return embedder
