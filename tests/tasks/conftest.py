"""Fixtures of the tasks: small components, trained once for all tests that do not train them."""

from functools import cache

import pytest
import spacy

from helpers.tasks import make_trained


@pytest.fixture(scope="session")
def trained_once():
    """Gives the pipeline without ELMo of a task, which knows its examples."""

    @cache
    def give(task):
        nlp = make_trained(task)
        return nlp, nlp.get_pipe(task.factory).model.to_bytes()

    return give


@pytest.fixture
def know(trained_once):
    """The same; what a test does to the weights is undone."""
    used = set()

    def give(task):
        used.add(task)
        return trained_once(task)[0]

    yield give
    for task in used:
        nlp, weights = trained_once(task)
        nlp.get_pipe(task.factory).model.from_bytes(weights)


@pytest.fixture
def trained(request, know):
    """The pipeline that knows the examples of the test file's `TASK`."""
    return know(request.module.TASK)


@pytest.fixture
def make(make_nlp):
    """Makes a pipeline with the component of a task, and before it `elmo` if need be."""

    def make(task, tok2vec=None, *, elmo=False, **settings):
        spacy.util.fix_random_seed(0)
        return task.add(make_nlp() if elmo else spacy.blank("en"), tok2vec, **settings)

    return make
