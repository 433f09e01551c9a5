"""Loads `helpers/fixtures.py` in each process that runs tests."""

pytest_plugins = ["helpers.kernel_calls"]


def pytest_configure(config):
    """Import the fixtures, and with them all libraries.

    A process that only distributes tests to others needs none.
    """
    if config.getoption("dist", "no") == "no" or hasattr(config, "workerinput"):
        config.pluginmanager.import_plugin("helpers.fixtures")
