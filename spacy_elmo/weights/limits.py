"""Limits for the files of a model.

Readers refuse files above a limit before they unpack or parse them. The limits for the sizes of a
model are in `model.config`.
"""

# Bytes of a JSON file (options.json, config.json, meta.json) or of a safetensors header.
LARGEST_JSON = 1 << 21
# Bytes and sections of a pipeline's config.cfg. The time of spaCy's parser grows with the square of
# the number of sections.
LARGEST_CONFIG = 1 << 18
MAX_SECTIONS = 1000
# Bytes of the pickles in a state dict. They have about 300 per tensor.
LARGEST_PICKLE = 1 << 18
# Dimensions of a tensor in a state dict, as in NumPy 2. Products of more numbers take too long.
MAX_DIMENSIONS = 64
# Average number of bytes of the lines in a vocabulary.
LARGEST_LINE = 256
# Levels and entries of an archive or an HDF5 file.
MAX_LEVELS = 32
MAX_ENTRIES = 10_000
# Bytes of the directory of an archive.
LARGEST_DIRECTORY = 1 << 22
# Chunks of all datasets in an HDF5 file.
MAX_CHUNKS = 1 << 16
# Compression ratio. Weights can hardly be compressed, so a file with a larger ratio is broken or an
# attack.
LARGEST_RATIO = 10
SMALL = 1 << 20  # A file may unpack to this number of bytes at any compression ratio.


def largest_unpacked(n_bytes: int) -> int:
    """Return the maximum unpacked size, in bytes, of a compressed file of `n_bytes`."""
    return SMALL + LARGEST_RATIO * n_bytes
