"""Token counts: an estimate for text, and the number of tokens that are too long for a model."""

import codecs
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any, Optional

from ..files.compression import UNPACK_ERRORS, compression_of, unpack
from ..model.config import BiLMConfig
from .manifest import read_manifest
from .reading import Inputs, ending, find_files, is_jsonl, read_record, read_sentences

SAMPLE = 1 << 19  # Bytes that are read from each file.
LARGEST_RATIO = 20  # Maximum unpacked bytes, as a multiple of SAMPLE.
MAX_FILES = 50
EXAMPLES = 5  # Number of frequent tokens that an audit names.
TOKENS_A_WORD = 1.2  # Tokens per word of running text, because spaCy splits punctuation off.


def estimate_tokens(inputs: Inputs, *, format: str = "sentences") -> int:
    """Estimate the number of tokens in files from samples: the start of some of the files.

    For a prepared corpus, the number is exact.

    inputs (Union[str, Path, Iterable[Union[str, Path]]]): Files, folders, globs, or corpora that
        `prepare` wrote.
    format (str): Format of text files: 'sentences' (one per line) or 'text' (running text).
    RETURNS (int): The estimated number.
    RAISES (ValueError): A path is missing, or a file cannot be read.
    """
    inputs = [inputs] if isinstance(inputs, (str, Path)) else list(inputs)
    manifests = [read_manifest(path) for path in inputs]
    total = sum(manifest["counts"]["tokens"] for manifest in manifests if manifest)
    kinds: dict[str, list[Path]] = defaultdict(list)
    for file in find_files(path for path, manifest in zip(inputs, manifests) if not manifest):
        if file.stat().st_size:
            kinds[ending(file)].append(file)
    return int(total + sum(_estimate(some, format == "text") for some in kinds.values()))


def audit_tokens(
    sizes: BiLMConfig,
    inputs: Sequence[str],
    *,
    format: str = "sentences",
    lang: Optional[str] = None,
) -> dict[str, Any]:
    """Count the tokens in a text that are too long for a model.

    A model cannot distinguish two tokens that differ only after its maximum length.

    sizes (BiLMConfig): Sizes of the model.
    inputs (Sequence[str]): Files, folders or globs of text.
    format (str): Format of text files: 'sentences' (one per line) or 'text' (running text).
    lang (Optional[str]): Language of spaCy's tokenizer for running text.
    RETURNS (dict): The number of tokens, the number and share of truncated tokens, the most
        frequent truncated tokens, and the maximum length with its unit.
    RAISES (ValueError): The model reads no characters, or the text cannot be read.
    """
    if not sizes.n_characters:
        raise ValueError(
            "a model without characters does not truncate tokens. Give a character model."
        )
    limit = sizes.max_characters_per_token - 2  # Without the begin-of-word and end-of-word marks.
    is_bytes = sizes.token_encoder == "bilm-tf"
    n_tokens, cut = 0, Counter[str]()
    for sentence in read_sentences(find_files(inputs), format=format, lang=lang):
        n_tokens += len(sentence)
        cut.update(
            token
            for token in sentence
            if len(token) > limit or (is_bytes and len(token.encode("utf8", "ignore")) > limit)
        )
    if not n_tokens:
        raise ValueError(f"no token in {', '.join(inputs)}. Give files with text.")
    n_cut = sum(cut.values())
    return {
        "tokens": n_tokens,
        "cut": n_cut,
        "share": n_cut / n_tokens,
        "limit": f"{limit} {'UTF-8 bytes' if is_bytes else 'code points'}",
        "most frequent": [token for token, _ in cut.most_common(EXAMPLES)],
    }


def _estimate(files: Sequence[Path], is_text: bool) -> float:
    """Estimate the number of tokens in files of one format from the start of some of them.

    files (Sequence[Path]): The files. They should have similar numbers of tokens per byte.
    is_text (bool): Whether `.txt` files contain running text.
    """
    found = [_sample(file, is_text) for file in files[:: -(-len(files) // MAX_FILES)]]
    tokens, n_bytes = map(sum, zip(*found))
    return tokens * sum(file.stat().st_size for file in files) / n_bytes


def _sample(file: Path, is_text: bool) -> tuple[float, int]:
    """Return the number of tokens in the first block of a file, and the block's bytes on disk."""
    try:
        with file.open("rb") as stream:
            block = stream.read(SAMPLE)
        compression = compression_of(file.name)
        content = _unpacked(block, compression) if compression else block
    except UNPACK_ERRORS as error:
        raise ValueError(f"{file}: cannot be read: {error}") from error
    lines = content.removeprefix(codecs.BOM_UTF8).split(b"\n")
    if is_jsonl(file):
        return sum(_tokens_of_json(line) for line in lines), len(block)
    words = sum(len(line.split()) for line in lines)
    return words * (TOKENS_A_WORD if is_text else 1.0), len(block)


def _unpacked(block: bytes, compression: str) -> bytes:
    """Unpack the start of a compressed file, until the block ends."""
    content = bytearray()
    with unpack(BytesIO(block), compression) as stream, suppress(EOFError):
        while len(content) < LARGEST_RATIO * SAMPLE and (part := stream.read1(SAMPLE)):
            content += part
    return bytes(content)


def _tokens_of_json(line: bytes) -> float:
    """Count the tokens in a line of `.jsonl`. Return 0 if it is incomplete or invalid."""
    try:
        content = read_record(line.decode("utf8"))
    except ValueError:
        return 0.0
    return len(content.split()) * TOKENS_A_WORD if isinstance(content, str) else len(content)
