"""An `elmo` pipe of the tiny model with default settings."""

import pytest


@pytest.fixture
def nlp(make_nlp):
    return make_nlp()
