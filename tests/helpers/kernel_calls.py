"""A plugin of pytest, with which `make test` runs only those tests with each kernel that call one.

A run notes in pytest's cache which tests passed without the kernel: neither they nor their fixtures
computed with it, or asked for its precision. `--with-kernel` leaves these tests out.
"""

from functools import wraps

import pytest

CACHED = "spacy-elmo/tests_without_kernel"
_calls, _calling_fixtures, _without_kernel = [], set(), []


def n_calls():
    """Return how often a kernel was called in this process."""
    return len(_calls)


def _note(owner, name):
    original = getattr(owner, name)

    @wraps(original)
    def call(*arguments, **settings):
        _calls.append(name)
        return original(*arguments, **settings)

    is_static = isinstance(vars(owner)[name], staticmethod)
    setattr(owner, name, staticmethod(call) if is_static else call)


def note_calls():
    """Note all calls of kernels in this process from now on."""
    from spacy_elmo.frozen import model
    from spacy_elmo.frozen.kernel import compiled, numpy_kernel
    from spacy_elmo.layers import fitting

    for owner in (numpy_kernel.NumpyLinear, compiled.CompiledLinear):
        _note(owner, "__call__")
    _note(compiled.CompiledLinear, "blocks")
    for owner in (numpy_kernel.NumpyLSTM, compiled.CompiledLSTM):
        _note(owner, "run")
    for owner in (numpy_kernel.NumpyKernel, compiled.CompiledKernel):
        _note(owner, "convolve")
    for owner in (model, fitting):
        _note(owner, "resolve_precision")


def pytest_addoption(parser):
    parser.addoption("--with-kernel", action="store_true", help="leave out tests without kernel")


def pytest_collection_modifyitems(config, items):
    if config.option.with_kernel:
        known = set(config.cache.get(CACHED, []))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid in known])
        items[:] = [item for item in items if item.nodeid not in known]


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef):
    """Shared fixtures are made once, so note them by name for all tests that use them."""
    before = n_calls()
    try:
        return (yield)
    finally:
        if n_calls() > before:
            _calling_fixtures.add(fixturedef.argname)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    before = n_calls()
    result = yield
    if n_calls() == before and _calling_fixtures.isdisjoint(item.fixturenames):
        item.user_properties.append((CACHED, item.nodeid))
    return result


def pytest_runtest_logreport(report):
    if report.when == "call":
        _without_kernel.extend(value for name, value in report.user_properties if name == CACHED)


def pytest_sessionfinish(session):
    is_worker = hasattr(session.config, "workerinput")  # Workers send their reports.
    if not (is_worker or session.config.option.with_kernel):
        session.config.cache.set(CACHED, _without_kernel)
