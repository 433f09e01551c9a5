"""Resumable embedding of text of any size into a file or a folder of shards.

A plan cuts the input into shards, several processes make the shards, and complete shards are kept.
So a run can be resumed. A single output file works the same way: its shards are in `OUTPUT.part`,
and are joined at the end.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

from ..files import followed, full_disk, is_stream, progress_bar, user_path
from ..files.compression import suffix_of
from ..files.remote import is_url
from ..model.threads import limit_threads
from ..text.reading import Inputs
from ..text.workers import map_in_order, parse_worker
from .embedder import CorpusEmbedder
from .entries import EntryCounts, WriteOptions
from .inputs import DOCBIN, find_inputs, looks_like_running_text, read_entries
from .outputs import OUTPUTS, check_format, check_room, check_wanted
from .partial_output import SUFFIX, PartialOutput, read_embedded, write_embedded
from .places import Folder, InputPiece, RemoteFolder, open_folder
from .plan import make_plan
from .ray_workers import map_with_ray
from .shard_folder import ShardFolder, check_settings, clear, no_sentence, open_shards, write_record

MAX_TOKENS = 10_000
ADVICE = "run again with `resume=True`: it resumes"
SHOWN = 20  # Maximum number of failed shards in an error message.

Made = Union[EntryCounts, str]  # Counts of a shard, or an error message.


class _Job(NamedTuple):
    """One call of `embed_corpus`, without its input and output.

    call (Callable): Calls a function on each task: in this process, in several, or with Ray.
    is_joined (bool): Whether the shards are joined into one file.
    """

    call: Callable[..., Iterator[tuple[str, Made]]]
    embedder: CorpusEmbedder
    format: str
    tokenize: bool
    column: Optional[str]
    max_tokens: int
    options: WriteOptions
    n_threads: Optional[int]
    device: Optional[str]
    is_joined: bool

    def settings(self, **more: Any) -> dict[str, Any]:
        """Return all settings that change the shards. A run is resumed only if they are equal.

        more (Any): Settings that only shards or only a single file have.
        """
        return {
            **self.embedder.describe(),
            **more,
            "format": self.format,
            "tokenize": self.tokenize,
            # Earlier versions did not write this key for a single file.
            **({} if self.column is None else {"column": self.column}),
        }

    def write_shards(
        self, sources: Sequence[InputPiece], folder: Folder, n_shards: int, worker: Optional[str]
    ) -> tuple[EntryCounts, bool]:
        """Make the missing shards of this worker.

        RETURNS (Tuple[EntryCounts, bool]): The counts of the made shards, and whether this call
            made all shards of the output.
        """
        index, keys = self.options.index, self.options.sentence_keys
        settings = self.settings(shards=n_shards, sentence_index=index, sentence_keys=keys)
        plan = partial(make_plan, sources, n_shards, tokenize=self.tokenize, column=self.column)
        shards = open_shards(folder, OUTPUTS[self.format].SUFFIXES[0], settings, sources, plan)
        first, step = parse_worker(worker)
        mine = range(first, len(shards.plan), step)
        with full_disk(str(folder), ADVICE):
            failed = [
                f"{name}: {problem}. Delete this shard, and run again"
                for name, problem in _find_damaged(shards, mine).items()
            ]
            counts, n_made = EntryCounts(), 0
            for name, result in self._make_shards(shards, settings, mine):
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

    def write_file(
        self, sources: Sequence[InputPiece], output: Path, *, resume: bool, force: bool
    ) -> EntryCounts:
        """Make the shards in `OUTPUT.part`, and join them to the output file. Return its counts."""
        part = PartialOutput(output)
        if not resume:
            check_room(output, self.format, force)
        sources = [replace(source, sha256=source.digest(0, source.size())) for source in sources]
        inputs = [{"name": one.name, "size": one.size(), "sha256": one.sha256} for one in sources]
        settings = self.settings(inputs=inputs)
        if resume and output.exists():
            found = OUTPUTS[self.format].read_settings(output)
            written = EntryCounts.pop_from(found)
            if written is not None and found == settings | self.options.describe():
                part.delete()
                return written
            check_room(output, self.format, force)
        begin_again = force and not resume
        if not begin_again:
            part.check()
        try:
            with full_disk(output, ADVICE), part.held(begin_again=begin_again):
                plan = partial(make_plan, sources, None, tokenize=self.tokenize, column=self.column)
                shards = open_shards(part.shards, SUFFIX, settings, sources, plan)
                numbers = range(len(shards.plan))
                for name, problem in _find_damaged(shards, numbers).items():
                    warnings.warn(f"{part.shards}/{name} is made again: {problem}", stacklevel=3)
                    part.shards.delete(name)
                for _, result in self._make_shards(shards, settings, numbers):
                    if isinstance(result, str):
                        raise ValueError(result)
                counts = shards.counts()
                if counts.entries:
                    about = settings | self.options.describe() | counts.describe()
                    _join(self, part, shards, about)
                    check_room(output, self.format, force)  # Another process may have written it.
                    part.publish()
        except BlockingIOError:  # Another process uses the folder.
            raise
        except BaseException:
            if not any(name.startswith("part-") for name in part.shards.names()):
                part.delete()
            raise
        part.delete()
        if not counts.entries:
            raise no_sentence(sources)
        return counts

    def _make_shards(
        self, shards: ShardFolder, settings: dict[str, Any], numbers: range
    ) -> Iterator[tuple[str, Made]]:
        """Make the missing shards. For each, yield its name, and its counts or an error message."""
        done, firsts, tasks = shards.folder.names(), shards.firsts(), []
        shared = self, shards.folder, shards.checksum, settings
        for number in numbers:
            name, first = shards.name(number), firsts[number] if firsts else None
            if name not in done:
                tasks.append((name, (*shared, name, shards.plan[number], first)))
        n_shards = len(numbers)
        with progress_bar(n_shards, "Shards", "shard", initial=n_shards - len(tasks)) as bar:
            for name, result in self.call(_make_shard, tasks):
                yield name, result
                bar.update()


def embed_corpus(
    model: str,
    inputs: Inputs,
    output: Union[str, Path],
    *,
    shards: Optional[int] = None,
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
    resume: bool = False,
    force: bool = False,
    **options: Any,
) -> EntryCounts:
    """Write the vectors of text to a file, or to a folder of shards.

    If a call is interrupted, repeat it: it resumes.

    model (str): Folder or package of a pipeline with a pipe `elmo`, or weights that
        `spacy_elmo.weights.read_weights` can read.
    inputs (Union[str, Path, Iterable[Union[str, Path]]]): Files, folders, globs, and URLs that
        `fsspec` can read.
    output (Union[str, Path]): The file or folder. Shards may be written to a URL.
    shards (Optional[int]): Maximum number of shards. Default: write a single file.
    workers (Union[int, str]): Number of processes on this machine; several processes use one
        thread each. Or "ray": the processes of a Ray cluster, which must see model, input and
        output under the same paths.
    worker (Optional[str]): "K/N" makes every N-th shard, starting with the K-th.
    address (Optional[str]): Address of the Ray cluster for `ray.init`.
    gpus_per_worker (float): GPUs of each Ray process. If above 0, the model runs on a GPU.
    format (Optional[str]): One of `OUTPUTS`. Default: the format with the suffix of `output`, or
        "parquet" for shards without a suffix.
    tokenize (bool): Whether text files contain running text that the pipeline splits. By default a
        line is a sentence whose tokens are separated by spaces.
    column (Optional[str]): Text column of `.tsv` files (name, or number from 1), and word column
        of `.conll` files (number).
    max_tokens (int): Maximum number of tokens in a sentence or Doc.
    sentence_index (bool): Whether to write the texts (`sentence_to_index`).
    sentence_keys (bool): Whether to name the datasets of an HDF5 file by sentences instead of
        numbers.
    resume (bool): Whether to leave a finished output unchanged, and to resume an unfinished output
        even if `force` is True.
    force (bool): Whether to replace an existing output, and to delete an unfinished output.
    options: Other arguments of `CorpusEmbedder`.
    RETURNS (EntryCounts): Counts of the file. For shards, counts of the shards that this call
        made.
    RAISES (ValueError): A setting is invalid, the model or input cannot be read, the output
        exists, the unfinished output has other settings, or a shard is damaged.
    RAISES (ImportError): Ray is not installed.
    RAISES (OSError): The disk is full, another process writes the same file, or a worker was
        killed.
    """
    output = output if is_url(output) else user_path(output)
    if workers == "ray":  # Ray processes have other working directories.
        output = output if is_url(output) else Path(output).absolute()
        model = str(user_path(model).absolute()) if user_path(model).exists() else model
    format = check_format(Path(output), format, is_sharded=shards is not None)
    call = _caller(workers, address, gpus_per_worker)
    _check_shards(shards, worker, output, format, force)
    embedder = CorpusEmbedder(model, **options)
    check_wanted(embedder, format, max_tokens=max_tokens, sentence_keys=sentence_keys)
    output = output if is_url(output) else followed(Path(output))
    sources = find_inputs(inputs, output, column)
    if not any(suffix_of(source.name) == DOCBIN for source in sources):
        embedder.reader().check_labels()  # Docs in .spacy files may have other labels.
    if workers == "ray":
        sources = [source.absolute() for source in sources]
    running_text = None if tokenize else looks_like_running_text(sources)
    if running_text is not None:
        warnings.warn(
            f"{running_text} looks like running text, but its tokens are cut at spaces. Set "
            f"`tokenize=True` if a line is not one sentence with spaces between its tokens.",
            stacklevel=2,
        )
    job = _Job(
        call=call,
        embedder=embedder,
        format=format,
        tokenize=tokenize,
        column=column,
        max_tokens=max_tokens,
        options=WriteOptions(sentence_index, sentence_keys, embedder.empty),
        n_threads=None if workers == 1 else 1,
        device="cuda" if gpus_per_worker else None,
        is_joined=shards is None,
    )
    if shards is None:
        counts, is_all = job.write_file(sources, Path(output), resume=resume, force=force), True
    else:
        folder = open_folder(output)
        if force and not resume:
            clear(folder)
        counts, is_all = job.write_shards(sources, folder, shards, worker)
    if is_all and counts.entries and not counts.vectors and embedder.only is not None:
        warnings.warn(f"`only={embedder.only}`: no row has a token", stacklevel=2)
    return counts


def _join(job: _Job, part: PartialOutput, shards: ShardFolder, settings: dict[str, Any]) -> None:
    """Join the shards to the output file."""
    whole = part.clear_whole()
    paths = (part.shards.path / shards.name(number) for number in range(len(shards.plan)))
    entries = chain.from_iterable(map(read_embedded, paths))
    with progress_bar(settings["entries"], "Writing", "entries", iterable=entries) as bar:
        OUTPUTS[job.format].write(whole, bar, settings, job.options)


def _find_damaged(shards: ShardFolder, numbers: range) -> dict[str, str]:
    """Return the problem of each damaged shard, by the shard's name. Skip missing shards."""
    done = shards.folder.names() & {shards.name(number) for number in numbers}
    problems = {name: shards.find_problem(name) for name in sorted(done)}
    return {name: problem for name, problem in problems.items() if problem}


def _make_shard(
    job: _Job,
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
    embedder, counts = job.embedder, EntryCounts()
    if job.n_threads is not None:
        limit_threads(job.n_threads)
        embedder = _loaded_once(replace(embedder, device=job.device or embedder.device))
    try:
        described = embedder.describe()
        check_settings(folder, {key: settings[key] for key in described}, described)
        reader = embedder.reader(keep_docs=job.format == "spacy")
        entries = read_entries(
            pieces, reader, tokenize=job.tokenize, column=job.column, max_tokens=job.max_tokens
        )
        embedded = embedder.embed(counts.count(entries))
        with folder.writing(name) as whole:
            if job.is_joined:
                write_embedded(whole, embedded)
            else:
                about = {**settings, "shard": name, "first": first}
                options = replace(job.options, first=first or 0)
                OUTPUTS[job.format].write(whole, embedded, about, options)
            write_record(folder, name, plan, whole, counts)
    except ValueError as error:
        return str(error)
    return counts


@lru_cache(maxsize=1)
def _loaded_once(embedder: CorpusEmbedder) -> CorpusEmbedder:
    """Return the first of equal embedders, so that a process loads their model only once."""
    return embedder


def _caller(
    workers: Union[int, str], address: Optional[str], gpus_per_worker: float
) -> Callable[..., Iterator[tuple[str, Made]]]:
    """Return the function that runs the tasks: `map_in_order` or `map_with_ray`."""
    if workers == "ray":
        return partial(map_with_ray, address=address, gpus_per_worker=gpus_per_worker)
    if address is not None or gpus_per_worker:
        raise ValueError("`address` and `gpus_per_worker` need `workers=ray`")
    if isinstance(workers, str) or workers < 1:
        raise ValueError(f"`workers` must be 1 or more, or 'ray', got {workers}")
    return partial(map_in_order, n_process=workers)


def _check_shards(
    shards: Optional[int], worker: Optional[str], output: Union[str, Path], format: str, force: bool
) -> None:
    """Check the settings that apply only to files or only to shards.

    RAISES (ValueError): A setting is invalid.
    """
    parse_worker(worker)
    if shards is not None:
        if shards < 1:
            raise ValueError(f"`shards` must be 1 or more, got {shards}")
        if format == "spacy" and isinstance(open_folder(output), RemoteFolder):
            raise ValueError(
                f"{output}: Docs can only be written to this machine. Set another `format`."
            )
        if worker and force:
            raise ValueError("`force` would delete the shards of other workers. Omit one of them.")
    elif worker is not None:
        raise ValueError("`worker` needs `shards`. Set `shards`.")
    elif is_url(output):
        raise ValueError(f"{output}: a single file cannot be written to a URL. Set `shards`.")
    elif is_stream(Path(output)):
        raise ValueError(f"{output} is not a regular file. Give the name of a file on a disk.")
