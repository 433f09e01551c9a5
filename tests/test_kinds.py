"""Marks that tests get by what they call."""

import subprocess

import pytest

from helpers import kinds
from helpers.commands import run_python


class Starter:
    def start(self):
        return run_python("-c", "pass")


def indirectly():
    return Starter.start(Starter())


@pytest.fixture
def started():
    return subprocess


@pytest.fixture
def kinds_of(request):
    return [kind for kind in kinds.KINDS if request.node.get_closest_marker(kind)]


def test_through_a_helper_of_a_helper(kinds_of):
    assert kinds_of == ["processes"]
    assert indirectly


def test_through_a_fixture(started, kinds_of):
    assert kinds_of == ["processes"]


def test_within_a_function(kinds_of):
    def later(nlp):
        nlp.initialize()

    assert kinds_of == ["training"]
    assert later


def test_of_names_alone(kinds_of):
    """What a string holds is no call."""
    assert kinds_of == []
    assert "subprocess".isalpha()
