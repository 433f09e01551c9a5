"""Loads `helpers/fixtures.py` in each process that runs tests."""

import os
from pathlib import Path

# Tiny models gain nothing from more threads, which wait for each other for long where others use
# the machine, and sum in another order where there are more cores. Set before NumPy and PyTorch are
# imported, and for the tests' own processes.
os.environ["OMP_NUM_THREADS"] = "1"
# hypothesis keeps tables of Unicode here, which `make clean` deletes.
os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(
    Path(__file__).resolve().parents[1] / ".pytest_cache" / "hypothesis"
)
pytest_plugins = ["helpers.kernel_calls"]


def pytest_configure(config):
    """Import the fixtures, and with them all libraries.

    A process that only distributes tests to others needs none.
    """
    if config.getoption("dist", "no") == "no" or hasattr(config, "workerinput"):
        config.pluginmanager.import_plugin("helpers.fixtures")
