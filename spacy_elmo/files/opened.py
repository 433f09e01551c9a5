"""Files that stay open, so that their content can be read after they are deleted or replaced."""

import hashlib
import os
import weakref
from io import BytesIO
from pathlib import Path

_BLOCK = 2**24  # Bytes per read. The system reads at most 2 GB at once.
_N_SAMPLES, _SAMPLE = 64, 64  # Number of samples of the content, and bytes of each sample.


class OpenedFile:
    """File that stays readable after it is deleted, renamed or replaced, because it is open.

    Threads and forked processes can read it at the same time.

    path (Path): The file.
    RAISES (OSError): The file cannot be opened.
    """

    def __init__(self, path: Path):
        self.path = path
        self._descriptor = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor)
        self._seen = self._traces()
        self._changed_at = os.fstat(self._descriptor).st_ctime_ns
        self._sampled = self._sample()

    def __str__(self) -> str:
        return str(self.path)

    def is_at_its_path(self) -> bool:
        """Return whether the path still leads to this file."""
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(self._descriptor))
        except OSError:
            return False

    def read(self) -> BytesIO:
        """Read the file into memory, and return its content.

        RAISES (ValueError): Another process has written to the file.
        """
        self.check()
        content = BytesIO()
        while block := os.pread(self._descriptor, _BLOCK, content.tell()):
            content.write(block)
        content.seek(0)
        return content

    def check(self) -> None:
        """Check that the file has not changed since it was opened.

        RAISES (ValueError): Another process has written to the file.
        """
        if self._traces() != self._seen or self._is_overwritten():
            raise ValueError(
                f"{self.path}: something has written to this file since the model was loaded, so "
                f"its weights are lost. Load the model again; to replace a file, write a new one "
                f"and rename it."
            )

    def _traces(self) -> tuple[int, int]:
        status = os.fstat(self._descriptor)
        return status.st_size, status.st_mtime_ns

    def _is_overwritten(self) -> bool:
        """Return whether the content differs in spite of an equal size and modification time.

        Programs cannot set the ctime, but deleting or renaming the file also changes it. So a new
        ctime is only a reason to compare samples of the content. Other weights differ almost
        everywhere.
        """
        changed_at = os.fstat(self._descriptor).st_ctime_ns
        if changed_at == self._changed_at:
            return False
        if self._sample() != self._sampled:
            return True
        self._changed_at = changed_at
        return False

    def _sample(self) -> bytes:
        """Return a digest of some short pieces of the file."""
        digest = hashlib.sha256()
        size = os.fstat(self._descriptor).st_size
        for i in range(_N_SAMPLES):
            digest.update(os.pread(self._descriptor, _SAMPLE, size * i // _N_SAMPLES))
        return digest.digest()
