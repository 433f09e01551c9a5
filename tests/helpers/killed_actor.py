"""What an actor of Ray does in place of making a shard: it may be killed before."""

import os
import signal
from pathlib import Path

from spacy_elmo.export.sharding import _make_shard


def killed_at_third(job, name, *rest):
    """As if there were no memory left, once."""
    killed = Path(job.folder.path, "..", "killed")
    if name.startswith("part-00002") and not killed.exists():
        killed.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return _make_shard(job, name, *rest)
