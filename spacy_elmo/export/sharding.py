"""Embedding into shards by several processes.

A plan cuts the input into shards, several processes make the shards, and complete shards are kept.
So a run can be resumed. A single output file works the same way, see `joining`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, NamedTuple, Optional, Union

from ..files import full_disk, progress_bar
from ..files.remote import is_url
from ..model.threads import limit_threads
from ..text.workers import map_in_order, parse_worker
from .doc_reader import DocReader
from .embedder import CorpusEmbedder
from .entries import EntryCounts, WriteOptions
from .folders import Folder
from .inputs import read_entries
from .outputs import OUTPUTS
from .partial_output import write_embedded
from .pieces import InputPiece
from .plan import Plan, make_plan
from .ray_workers import map_with_ray
from .settings import ExportSettings
from .shard_folder import (
    ShardFolder,
    check_settings,
    find_replaceable,
    no_sentence,
    open_shards,
    write_record,
)

ADVICE = "run again with `resume=True`: it resumes"
SHOWN = 20  # Maximum number of failed shards in an error message.

Made = Union[EntryCounts, str]  # Counts of a shard, or an error message.


class Job(NamedTuple):
    """One call of `embed_corpus`, without its input and output. It can be pickled.

    embedder (CorpusEmbedder): The model, and the settings of the vectors.
    format (str): Output format, one of `OUTPUTS`.
    settings (ExportSettings): The other settings.
    """

    embedder: CorpusEmbedder
    format: str
    settings: ExportSettings

    def describe(self, **more: Any) -> dict[str, Any]:
        """Return all settings that change the shards. A run is resumed only if they are equal.

        more (Any): Settings that only shards or only a single file have.
        """
        return {
            **self.embedder.describe(),
            **more,
            "output_format": self.format,
            "format": self.settings.format,
            "input_format": self.settings.input_format,
            "column": self.settings.column,
        }

    def write_options(self, embedder: CorpusEmbedder, first: int = 0) -> WriteOptions:
        """Return the options for a file that begins with entry `first` of the output."""
        return WriteOptions(self.settings.texts, embedder.empty, first)

    def reader(self, embedder: CorpusEmbedder) -> DocReader:
        """Return the reader that makes the entries of the output format."""
        reader = embedder.reader()
        return reader.keeping_docs() if self.format == "spacy" else reader

    def embedder_of_process(self) -> CorpusEmbedder:
        """Return the embedder for this process. With several processes, each has one thread."""
        if self.settings.workers == 1:
            return self.embedder
        limit_threads(1)
        device = "cuda" if self.settings.gpus_per_worker else self.embedder.device
        return _loaded_once(replace(self.embedder, device=device))

    def call(self, tasks: Sequence[tuple[str, tuple]]) -> Iterator[tuple[str, Made]]:
        """Run `_make_shard` for tasks in this process, in several, or with Ray."""
        if self.settings.workers == "ray":
            n_gpus = self.settings.gpus_per_worker
            return map_with_ray(_make_shard, tasks, gpus_per_worker=n_gpus)
        return map_in_order(_make_shard, tasks, int(self.settings.workers))


def write_shards(
    job: Job, sources: Sequence[InputPiece], folder: Folder, n_shards: int
) -> tuple[EntryCounts, bool]:
    """Make the missing shards of this worker.

    job (Job): What to make.
    sources (Sequence[InputPiece]): The whole input files.
    folder (Union[LocalFolder, RemoteFolder]): The output.
    n_shards (int): Maximum number of shards.
    RETURNS (Tuple[EntryCounts, bool]): The counts of the made shards, and whether this call made
        all shards of the output.
    RAISES (ValueError): A shard is damaged or cannot be made, or the input has changed.
    """
    settings = job.describe(shards=n_shards, texts=job.settings.texts)
    plan = partial(make_plan, sources, n_shards, job.settings)
    if job.settings.force and not job.settings.resume:
        old, planned = find_replaceable(folder), plan()
        if not planned:
            raise no_sentence(sources)
        _check_readable(job, planned)
        for name in old:
            folder.delete(name)
        plan = partial(list, planned)
    shards = open_shards(folder, OUTPUTS[job.format].SUFFIXES[0], settings, sources, plan)
    first, step = parse_worker(job.settings.worker)
    mine = range(first, len(shards.plan), step)
    with full_disk(str(folder), ADVICE):
        failed = [
            f"{name}: {problem}. Delete this shard, and run again"
            for name, problem in find_damaged(shards, mine).items()
        ]
        failed += _find_changed(shards, mine)
        counts, n_made = EntryCounts(), 0
        for name, result in make_shards(job, shards, settings, mine):
            if isinstance(result, str):
                failed.append(f"{name}: {result}")
            else:
                counts += result
                n_made += 1
    shards.sweep()
    if failed:
        more = f"\nand {len(failed) - SHOWN:,} more" if len(failed) > SHOWN else ""
        raise ValueError(
            f"{len(failed):,} of {len(mine):,} shards could not be made or are damaged. The "
            f"others are complete.\n" + "\n".join(sorted(failed)[:SHOWN]) + more
        )
    return counts, n_made == len(shards.plan)


def _check_readable(job: Job, plan: Plan) -> None:
    """Read the whole input once, without components, because old shards are deleted next.

    RAISES (ValueError): An entry cannot be read.
    """
    reader = job.reader(job.embedder).only_tokenizing()
    with progress_bar(len(plan), "Checking", "shard") as bar:
        for pieces in plan:
            for _ in read_entries(pieces, reader, job.settings):
                pass
            bar.update()


def make_shards(
    job: Job, shards: ShardFolder, settings: dict[str, Any], numbers: range
) -> Iterator[tuple[str, Made]]:
    """Make the missing shards.

    job (Job): What to make.
    shards (ShardFolder): The folder and its plan.
    settings (dict): Settings for the shards.
    numbers (range): Numbers of the shards.
    YIELDS (Tuple[str, Union[EntryCounts, str]]): Name of a shard, and its counts or an error
        message.
    """
    done, firsts, tasks = shards.folder.names(), shards.firsts(), []
    shared = job, shards.folder, shards.checksum, settings
    for number in numbers:
        name, first = shards.name(number), firsts[number] if firsts else None
        if name not in done:
            tasks.append((name, (*shared, name, shards.plan[number], first)))
    n_shards = len(numbers)
    with progress_bar(n_shards, "Shards", "shard", initial=n_shards - len(tasks)) as bar:
        for name, result in job.call(tasks):
            yield name, result
            bar.update()


def find_damaged(shards: ShardFolder, numbers: range) -> dict[str, str]:
    """Find the shards that were damaged or changed.

    shards (ShardFolder): The folder and its plan.
    numbers (range): Numbers of the shards. Missing shards are skipped.
    RETURNS (Dict[str, str]): The problem of each damaged shard, by its name.
    """
    done = shards.folder.names() & {shards.name(number) for number in numbers}
    problems = {name: shards.find_problem(name) for name in sorted(done)}
    return {name: problem for name, problem in problems.items() if problem}


def _find_changed(shards: ShardFolder, numbers: range) -> list[str]:
    """Find the existing shards whose input has changed since the plan.

    Unfinished shards check their input when they read it. Input at URLs is not checked, because
    that would download it again.

    RETURNS (List[str]): Name and problem of each shard.
    """
    done, problems = shards.folder.names(), []
    for number in numbers:
        name = shards.name(number)
        pieces = shards.plan[number] if name in done else []
        try:
            for piece in pieces:
                if not is_url(piece.source):
                    piece.check_unchanged()
        except ValueError as error:
            problems.append(f"{name}: {error}")
    return problems


def _make_shard(
    job: Job,
    folder: Folder,
    plan: str,
    settings: dict[str, Any],
    name: str,
    pieces: Sequence[InputPiece],
    first: Optional[int],
) -> Made:
    """Make a shard. Return its counts, or an error message. This can run in another process.

    plan (str): Checksum of the manifest.
    name (str): Name of the shard.
    pieces (Sequence[InputPiece]): Its input.
    first (Optional[int]): Index of its first entry in the whole output, if known.
    """
    embedder, counts = job.embedder_of_process(), EntryCounts()
    try:
        described = embedder.describe()
        check_settings(folder, {key: settings[key] for key in described}, described)
        entries = read_entries(pieces, job.reader(embedder), job.settings)
        embedded = embedder.embed(counts.count(entries))
        with folder.writing(name) as whole:
            if job.settings.shards is None:
                write_embedded(whole, embedded)
            else:
                about = {**settings, "shard": name, "first": first}
                options = job.write_options(embedder, first or 0)
                OUTPUTS[job.format].write(whole, embedded, about, options)
            write_record(folder, name, plan, whole, counts)
    except ValueError as error:
        return str(error)
    return counts


@lru_cache(maxsize=1)
def _loaded_once(embedder: CorpusEmbedder) -> CorpusEmbedder:
    """Return the first of equal embedders, so that a process loads their model only once."""
    return embedder
