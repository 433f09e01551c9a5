"""Every code block of README.md and of the pages under docs/ runs, and prints what they show."""

import re
import shutil

import pytest
from thinc.api import get_current_ops, set_current_ops

from spacy_elmo.pretraining import speed

from helpers import page_inputs
from helpers.page_blocks import PAGES, READ_BY_PEOPLE, RUN, run_page
from helpers.wheels import TRAINED, install

FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SLOW = re.compile(r"<!-- skip: next if\(not slow")


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    """A folder with inputs and a pretrained model."""
    folder = tmp_path_factory.mktemp("workplace")
    page_inputs.make_workplace(folder)
    page_inputs.pretrain(folder)
    return folder


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """Folders with the trained pipelines, as if their wheels were installed."""
    folders = []
    for model in TRAINED:
        folders.append(tmp_path_factory.mktemp(model.name))
        install(model, folders[-1])
    return folders


@pytest.fixture
def folder(filled, installed, tmp_path, monkeypatch):
    """A copy, to work in."""
    place = shutil.copytree(filled, tmp_path / "workplace")
    monkeypatch.chdir(place)
    monkeypatch.setattr(speed, "SPEED_STEPS", 3)  # No page shows the speed of this machine.
    for path in installed:
        monkeypatch.syspath_prepend(path)
    ops = get_current_ops()
    yield place
    set_current_ops(ops)  # docs/faq.md sets others.


ALL = [(page, False) for page in PAGES]
SLOW_ONES = [(page, True) for page in PAGES if SLOW.search(page.read_text("utf8"))]


@pytest.mark.training
@pytest.mark.commands
@pytest.mark.processes
@pytest.mark.parametrize(
    ("page", "slow"),
    [*ALL, *(pytest.param(*one, marks=pytest.mark.slow) for one in SLOW_ONES)],
    ids=lambda value: getattr(value, "name", "slow" if value else ""),
)
def test_the_code_of_a_page_runs(page, slow, folder, special_cases):
    if page.name in ("README.md", "pretraining.md"):  # They make the model before they use it.
        shutil.rmtree(folder / "pretraining")
    special_cases(page.read_text("utf8") + " ".join(page_inputs.SENTENCES))
    run_page(page, slow=slow)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_block_is_run_or_says_why_not(page):
    """An output follows the block that prints it."""
    text = page.read_text("utf8")
    before = ""
    for block in FENCE.finditer(text):
        language = block[1]
        assert language in {*RUN, *READ_BY_PEOPLE} or language.startswith("{"), block[0]
        assert language != "text" or before in ("python", "bash"), block[0]
        before = language
    reason = r'"[^"]{9,}"'
    good = re.compile(rf"<!-- skip: next ({reason}|if\(not slow, reason={reason}\)) -->")
    comments = re.findall(r"<!-- skip:.*?-->", text, re.DOTALL)
    assert [comment for comment in comments if not good.fullmatch(comment)] == []
