"""Limits of a model's files.

A reader refuses larger files before it unpacks or parses them. The limits of a model's sizes are
in `frozen.config`.
"""

# Bytes of a settings file (options.json, config.json, meta.json) or a safetensors header.
LARGEST_JSON = 1 << 21
# Bytes and sections of a pipeline's config.cfg. spaCy's parser takes quadratic time in the number
# of sections.
LARGEST_CONFIG = 1 << 18
MAX_SECTIONS = 1000
# Bytes of the pickles in a state dict. A tensor takes about 300.
LARGEST_PICKLE = 1 << 18
# Levels of nested containers in a pickle. A state dict has seven.
MAX_PICKLE_LEVELS = 100
# Average bytes of a line in a vocabulary.
LARGEST_LINE = 256
# Levels and entries of an archive or an HDF5 file.
MAX_LEVELS = 32
MAX_ENTRIES = 10_000
# Bytes of an archive's directory.
LARGEST_DIRECTORY = 1 << 22
# Chunks of all datasets in an HDF5 file.
MAX_CHUNKS = 1 << 16
# Maximum compression ratio. Weights hardly compress, so a file with a larger ratio is broken or an
# attack.
LARGEST_RATIO = 10
SMALL = 1 << 20  # Unpacked bytes that are allowed at any compression ratio.


def largest_unpacked(n_bytes: int) -> int:
    """Return the maximum unpacked size of a file with this packed size."""
    return SMALL + LARGEST_RATIO * n_bytes
