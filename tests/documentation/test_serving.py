"""The service of the page *Serving* under load, in short; `make soak` runs it for minutes."""

import pytest

from helpers import soak
from helpers.components import WIDTH
from helpers.forked import forks

pytestmark = [pytest.mark.processes, pytest.mark.threads]


@pytest.mark.training
@pytest.mark.pipelines
@forks
def test_service_under_load(make_nlp, tmp_path):
    soak.write_pipeline(make_nlp(), tmp_path, WIDTH)
    states = soak.soak(tmp_path, range(2), n_requests=12)
    assert len(states) == 3
    assert soak.faults(states) == []


def test_the_load_test_finds_faults():
    """Faults are other vectors, another open file, an unexpected error, and growth."""
    good = {"checksum": "a", "handles": 9, "errors": {"UnicodeDecodeError": 2}, "memory": 100}
    assert soak.faults([good, good]) == []
    for change in ({"checksum": "b"}, {"handles": 10}, {"errors": {"KeyError": 1}}):
        assert len(soak.faults([good, {**good, **change}])) == 1
    grown = [{**good, "memory": 100 + 20 * i} for i in range(8)]
    assert soak.memory_growth([good] * 8) == 0
    assert soak.memory_growth(grown) > 0.1
