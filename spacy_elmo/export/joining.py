"""Embedding into a single file: its shards are made in `OUTPUT.part`, and joined at the end."""

import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from ..files import full_disk, progress_bar
from .entries import EntryCounts
from .outputs import OUTPUTS, check_room
from .partial_output import SUFFIX, PartialOutput, read_embedded
from .pieces import InputPiece
from .plan import make_plan
from .shard_folder import ShardFolder, no_sentence, open_shards
from .sharding import ADVICE, Job, find_damaged, make_shards


def write_file(job: Job, sources: Sequence[InputPiece], output: Path) -> EntryCounts:
    """Make the shards in `OUTPUT.part`, and join them to the output file.

    job (Job): What to make.
    sources (Sequence[InputPiece]): The whole input files.
    output (Path): The file or folder to write.
    RETURNS (EntryCounts): The counts of the output.
    RAISES (ValueError): The output exists, the input cannot be read, or the unfinished output has
        other settings.
    """
    resume, force = job.settings.resume, job.settings.force
    part = PartialOutput(output)
    if not resume:
        check_room(output, job.format, force)
    sources = [replace(source, sha256=source.digest(0, source.size())) for source in sources]
    inputs = [{"name": one.name, "size": one.size(), "sha256": one.sha256} for one in sources]
    settings = job.describe(inputs=inputs)
    whole = settings | {"texts": job.settings.texts}
    if resume and output.exists():
        found = OUTPUTS[job.format].read_settings(output)
        written = EntryCounts.pop_from(found)
        if written is not None and found == whole:
            part.delete()
            return written
        check_room(output, job.format, force)
    begin_again = force and not resume
    if not begin_again:
        part.check()
    try:
        with full_disk(output, ADVICE), part.held(begin_again=begin_again):
            plan = partial(make_plan, sources, None, job.settings)
            shards = open_shards(part.shards, SUFFIX, settings, sources, plan)
            numbers = range(len(shards.plan))
            for name, problem in find_damaged(shards, numbers).items():
                warnings.warn(f"{part.shards}/{name} is made again: {problem}", stacklevel=3)
                part.shards.delete(name)
            for _, result in make_shards(job, shards, settings, numbers):
                if isinstance(result, str):
                    raise ValueError(result)
            counts = shards.counts()
            if counts.entries:
                _join(job, part, shards, whole | asdict(counts))
                check_room(output, job.format, force)  # Another process may have written it.
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


def _join(job: Job, part: PartialOutput, shards: ShardFolder, settings: dict[str, Any]) -> None:
    """Join the shards to the output file."""
    whole = part.clear_whole()
    paths = (part.shards.path / shards.name(number) for number in range(len(shards.plan)))
    entries = chain.from_iterable(map(read_embedded, paths))
    with progress_bar(settings["entries"], "Writing", "entries", iterable=entries) as bar:
        OUTPUTS[job.format].write(whole, bar, settings, job.write_options(job.embedder))
