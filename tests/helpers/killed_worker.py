"""Stand-in for making a shard in a process of Ray, which may be killed before."""

import os
import signal
from pathlib import Path

from spacy_elmo.export.sharding import _make_shard


def killed_at_tenth(job, folder, plan, settings, name, *rest):
    """Kill the process once for every tenth shard, like a system without memory left."""
    killed = Path(folder.path, "..", f"killed-{name}")
    if name.startswith("part-000") and name[9] == "3" and not killed.exists():
        killed.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return _make_shard(job, folder, plan, settings, name, *rest)
