"""Computation of the layers of Docs: batches of segments go through the language model."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeVar, Union

import numpy as np

from ..model.memory import return_freed_memory
from .segmenters import Segment
from .settings import ElmoSettings

if TYPE_CHECKING:
    from torch import Tensor

    from ..bilm.model import BiLM
    from ..frozen.model import FrozenBiLM

LARGE = 2**26  # Bytes. If a call's layers are larger, freed memory is returned to the system.

AnyBiLM = Union["FrozenBiLM", "BiLM"]
DocLayers = Union[np.ndarray, "Tensor"]  # Layers with a gradient are a tensor.
Placed = tuple[int, Segment]  # Index of a Doc, and one of the Doc's segments.
Counted = TypeVar("Counted")


def by_tokens(
    docs: Iterable[Counted], max_tokens: int, max_docs: int, size: Callable[[Any], int] = len
) -> Iterator[list[Counted]]:
    """Divide Docs, or other items that have tokens, into batches without changing their order.

    max_tokens (int): Maximum number of tokens in a batch. A batch of one Doc may have more.
    size (Callable): Returns the number of tokens of an item. Default: its length.
    """
    group: list[Counted] = []
    n_tokens = 0
    for doc in docs:
        if group and (n_tokens + size(doc) > max_tokens or len(group) == max_docs):
            yield group
            group, n_tokens = [], 0
        group.append(doc)
        n_tokens += size(doc)
    if group:
        yield group


def embed_words(
    bilm: AnyBiLM,
    words: Sequence[list[str]],
    segments: Sequence[list[Segment]],
    settings: ElmoSettings,
    *,
    keep_marks: bool = False,
) -> list[DocLayers]:
    """Compute the layers of Docs from their tokens and segments.

    settings (ElmoSettings): Only `initial_state` and `max_batch_tokens` are used.
    keep_marks (bool): Whether to include the vectors of sentence marks such as `<S>`, where
        `insert_marks` inserts the marks.
    RETURNS (List[Union[numpy.ndarray, Tensor]]): A tensor per Doc if layers have a gradient,
        otherwise an array. With `keep_marks`, `n_tokens` includes the marks. *Shape:*
        `(L + 1, n_tokens, 2P)`
    """
    computed = _compute_segments(bilm, words, segments, settings, keep_marks)
    lengths = [len(of_doc) for of_doc in words]
    if keep_marks or _wants_gradient(bilm):
        return _concatenate(bilm, len(lengths), computed)
    return _fill_arrays(bilm, lengths, computed)


def _compute_segments(
    bilm: AnyBiLM,
    words: Sequence[list[str]],
    segments: Sequence[list[Segment]],
    settings: ElmoSettings,
    keep_marks: bool,
) -> Iterator[tuple[Placed, Any]]:
    """Yield each segment with the layers of the tokens that it keeps.

    The segments are not in the order of `segments`. The layers are views of the batch's array.
    """
    carry = settings.initial_state == "carry"
    states: dict[int, Any] = {}
    whole_ends = {}
    if keep_marks:
        whole_ends = {(i, s.keep_start): _whole_ends(s) for i, s in _each_segment(segments)}
    for placed in _rounds(segments, carry=carry):
        # Put segments of similar length into a batch, so that most of its sequences run in each
        # step. Steps with few sequences take more time per token.
        placed.sort(key=_length, reverse=True)
        for batch in by_tokens(placed, settings.max_batch_tokens, len(placed), _length):
            tokens = [words[i][segment.start : segment.end] for i, segment in batch]
            state: Any = "warm" if settings.initial_state == "warm" else None
            if carry and states:
                zeros = bilm.zero_state(1)
                state = type(zeros).concatenate([states.get(i, zeros) for i, _ in batch])
            layers: Any
            layers, after = bilm.embed(tokens, state, keep_marks=keep_marks)
            if not isinstance(layers[0], np.ndarray) and not _wants_gradient(bilm):
                layers = _on_cpu(layers)
            if carry:
                states.update((i, after.rows([row])) for row, (i, _) in enumerate(batch))
            for (i, segment), values in zip(batch, layers):
                start, end = segment.keep_start - segment.start, segment.keep_end - segment.start
                if keep_marks:
                    opens, closes = whole_ends[i, segment.keep_start]
                    start, end = start + (not opens), end + 1 + closes
                yield (i, segment), values[:, start:end]


def insert_marks(
    words: Sequence[str], segments: Sequence[Segment], marks: Sequence[str]
) -> list[str]:
    """Insert sentence marks before and after each segment of a Doc.

    If a segment does not keep its first (or last) token, it has no mark at its start (or end):
    there, the text continues in the neighboring segment.

    marks (Sequence[str]): Mark at the start and mark at the end, such as `<S>` and `</S>`.
    """
    marked: list[str] = []
    for segment in segments:
        opens, closes = _whole_ends(segment)
        marked += marks[:opens]
        marked += words[segment.keep_start : segment.keep_end]
        marked += marks[1 : 1 + closes]
    return marked


def _whole_ends(segment: Segment) -> tuple[bool, bool]:
    """Check whether a segment's first token is kept, and whether its last token is kept."""
    return segment.keep_start == segment.start, segment.keep_end == segment.end


def _rounds(segments: Sequence[list[Segment]], *, carry: bool) -> Iterator[list[Placed]]:
    """Yield groups of segments that do not depend on each other's final LSTM state.

    If the state is not carried, all segments are one group. If the state is carried, the first
    segments of all Docs are the first group, the second segments are the second group, and so on.
    """
    if not carry:
        yield list(_each_segment(segments))
        return
    for each in zip_longest(*segments):
        # Read only the kept tokens. The previous window has read the others, so the carried state
        # already contains them.
        kept = [(i, (s.keep_start, s.keep_end)) for i, s in enumerate(each) if s]
        yield [(i, Segment(*ends, *ends)) for i, ends in kept]


def _each_segment(segments: Sequence[list[Segment]]) -> Iterator[Placed]:
    return ((i, segment) for i, cut in enumerate(segments) for segment in cut)


def _length(placed: Placed) -> int:
    return placed[1].end - placed[1].start


def _wants_gradient(bilm: Any) -> bool:
    return hasattr(bilm, "wants_gradient") and bilm.wants_gradient()


def _on_cpu(layers: "Sequence[Tensor]") -> list[np.ndarray]:
    """Convert the layers of a batch to float32 arrays, in one transfer from the GPU."""
    import torch

    ends = np.cumsum([values.shape[1] for values in layers])[:-1]
    return np.split(torch.cat(list(layers), dim=1).float().cpu().numpy(), ends, axis=1)


def _fill_arrays(
    bilm: AnyBiLM, lengths: list[int], computed: Iterable[tuple[Placed, np.ndarray]]
) -> list[DocLayers]:
    """Write the layers of segments into one array per Doc, which is allocated only once.

    Concatenation would keep the parts and the result in memory together, and the layers of a long
    Doc are most of the memory of the process.
    """
    n_layers, width = bilm.config.n_layers + 1, bilm.config.width
    found = [np.zeros((n_layers, length, width), dtype="float32") for length in lengths]
    for (i, segment), values in computed:
        found[i][:, segment.keep_start : segment.keep_end] = values
        del values  # Free the batch before the next one is computed.
    if sum(of_doc.nbytes for of_doc in found) > LARGE:
        return_freed_memory()  # Do this before the caller allocates more.
    return list(found)


def _concatenate(
    bilm: AnyBiLM, n_docs: int, computed: Iterable[tuple[Placed, Any]]
) -> list[DocLayers]:
    """Concatenate the layers of each Doc's segments.

    This replaces `_fill_arrays` if the layers include the sentence marks, because the number of
    vectors is then not known before, or if the layers have a gradient.
    """
    found: list[dict[int, Any]] = [{} for _ in range(n_docs)]
    for (i, segment), values in computed:
        found[i][segment.keep_start] = values
    joined: list[DocLayers] = []
    for of_doc in found:
        parts: Any = [of_doc[start] for start in sorted(of_doc)] or bilm.empty_layers(1)
        if isinstance(parts[0], np.ndarray):
            joined.append(np.concatenate(parts, axis=1))
        else:
            import torch

            joined.append(torch.cat(parts, dim=1))
    return joined
