"""Limits of a model's files.

Anything larger is refused before it is unpacked, parsed or traversed. `frozen.config` has the
limits of a model's sizes.
"""

# Bytes of a file of settings (options.json, config.json, meta.json) or a safetensors header.
LARGEST_JSON = 1 << 21
# Bytes and sections of a pipeline's config.cfg; spaCy's time grows with the sections' square.
LARGEST_CONFIG = 1 << 18
MAX_SECTIONS = 1000
# Bytes of the pickles in a state dict: a tensor takes 300.
LARGEST_PICKLE = 1 << 18
# Nested containers in a pickle: a state dict has seven.
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
# Weights hardly compress: a file that claims a larger ratio is broken, or an attack.
LARGEST_RATIO = 10
SMALL = 1 << 20  # Bytes that are allowed at any ratio.


def largest_unpacked(n_bytes: int) -> int:
    """Return the largest unpacked size allowed for a packed size."""
    return SMALL + LARGEST_RATIO * n_bytes
