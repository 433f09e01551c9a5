"""A pipeline with an `elmo` pipe of the tiny model, as its settings are by default."""

import pytest


@pytest.fixture
def nlp(make_nlp):
    return make_nlp()
