"""Settings of `embed_corpus`."""

from dataclasses import dataclass
from typing import Optional, Union

from ..text.reading import FORMATS
from ..text.workers import parse_worker
from .entries import TEXTS


@dataclass(frozen=True)
class ExportSettings:
    """Settings that say how `embed_corpus` reads, works and writes.

    The settings of the vectors themselves are in `CorpusEmbedder`.

    output_format (Optional[str]): One of `OUTPUTS`. Default: the format with the suffix of the
        output, or "parquet" for shards without a suffix.
    format (str): Format of text in `.txt` and `.tsv` files. "sentences": a line is a sentence whose
        tokens are separated by spaces. "text": running text that the pipeline splits.
    input_format (Optional[str]): Format of input files whose suffix names none, such as "txt".
    column (Optional[str]): Text column of `.tsv` files (name, or number from 1), and word column
        of `.conll` files (number).
    max_tokens (int): Maximum number of tokens in a sentence or Doc.
    texts (str): How to write the texts, one of `TEXTS`.
    shards (Optional[int]): Maximum number of shards. Default: write a single file.
    workers (Union[int, str]): Number of processes on this machine; several processes use one
        thread each. Or "ray": the processes of a Ray cluster, which must see model, input and
        output under the same paths.
    worker (Optional[str]): "K/N" makes every N-th shard, starting with the K-th.
    gpus_per_worker (float): GPUs of each Ray process. If above 0, the model runs on a GPU.
    resume (bool): Whether to leave a finished output unchanged, and to resume an unfinished output
        even if `force` is True.
    force (bool): Whether to replace an existing output, and to delete an unfinished output.
    RAISES (ValueError): A setting is invalid, or two settings exclude each other.
    """

    output_format: Optional[str] = None
    format: str = "sentences"
    input_format: Optional[str] = None
    column: Optional[str] = None
    max_tokens: int = 10_000
    texts: str = "index"
    shards: Optional[int] = None
    workers: Union[int, str] = 1
    worker: Optional[str] = None
    gpus_per_worker: float = 0
    resume: bool = False
    force: bool = False

    def __post_init__(self) -> None:
        for name, choices in (("format", FORMATS), ("texts", TEXTS)):
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"`{name}` must be one of {', '.join(choices)}, got '{getattr(self, name)}'"
                )
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens must be 1 or more, got {self.max_tokens}")
        if self.shards is not None and self.shards < 1:
            raise ValueError(f"`shards` must be 1 or more, got {self.shards}")
        is_ray = self.workers == "ray"
        if not is_ray and (isinstance(self.workers, str) or self.workers < 1):
            raise ValueError(f"`workers` must be 1 or more, or 'ray', got {self.workers}")
        if self.gpus_per_worker and not is_ray:
            raise ValueError("`gpus_per_worker` needs `workers=ray`")
        parse_worker(self.worker)
        if self.worker is not None and self.shards is None:
            raise ValueError("`worker` needs `shards`. Set `shards`.")
        if self.worker is not None and self.force:
            raise ValueError("`force` would delete the shards of other workers. Omit one of them.")
