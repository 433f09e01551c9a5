"""What the files of a model may be at most: what is beyond is refused before it is unpacked,
parsed or walked through. `bilm.config` has the largest sizes of a model itself."""

# Bytes of settings (options.json, config.json, meta.json) and of a safetensors header.
LARGEST_JSON = 1 << 21
# Bytes and sections of a pipeline's config.cfg; spaCy's time grows with the sections' square.
LARGEST_CONFIG = 1 << 18
MAX_SECTIONS = 1000
# Bytes of the pickles in a state dict: a tensor takes 300.
LARGEST_PICKLE = 1 << 18
# Containers in containers, of pickles: a state dict has seven.
MAX_PICKLE_LEVELS = 100
# Bytes of a line in a vocabulary, on average.
LARGEST_LINE = 256
# Levels of folders in an archive, and of groups in HDF5; entries of either.
MAX_LEVELS = 32
MAX_ENTRIES = 10_000
# Bytes of an archive's directory.
LARGEST_DIRECTORY = 1 << 22
# Chunks of all datasets in an HDF5 file.
MAX_CHUNKS = 1 << 16
# Weights cannot be packed further: what claims more is broken, or a trap.
LARGEST_RATIO = 10
SMALL = 1 << 20  # bytes that are no matter, however packed


def largest_unpacked(n_bytes: int) -> int:
    """RETURNS (int): Most bytes that so many packed ones may claim to hold."""
    return SMALL + LARGEST_RATIO * n_bytes
