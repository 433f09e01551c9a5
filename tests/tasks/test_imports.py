"""Imports of the tasks: nothing of a task is imported before its component is made."""

import pytest

from helpers.commands import run_python
from helpers.golden import SAVED

pytestmark = pytest.mark.processes

CONFIG = SAVED / "pretraining-adam.cfg"
PRETRAINING = f"""
import sys
from pathlib import Path
from spacy_elmo.pretraining.config import read_config
from spacy_elmo.pretraining.run import pretrain

Path("text.txt").write_text("A dog runs .\\nA cat sleeps .\\n" * 30)
texts = {{"corpus.train": "text.txt", "corpus.dev": "text.txt"}}
pretrain(read_config(Path({str(CONFIG)!r}), {{**texts, "training.max_steps": 1}}), Path("models"))
assert Path("models/model-best").is_dir()
print([name for name in sys.modules if name.startswith("spacy_elmo.tasks")])
"""


def test_a_pretraining_imports_no_task(tmp_path):
    """A pretraining makes a pipeline to write its model, and spaCy imports all factories for it."""
    assert run_python("-c", PRETRAINING, cwd=tmp_path).splitlines()[-1] == "[]"


def test_roles_are_read_without_a_component():
    code = (
        "import spacy; doc = spacy.blank('en')('Anna runs .');"
        "doc.spans['srl'] = [spacy.tokens.Span(doc, 0, 1, label='A0', span_id=1)];"
        "print(doc._.srl, doc[1]._.srl, doc[0]._.srl)"
    )
    assert run_python("-c", code) == "{1: {'A0': [Anna]}} {'A0': [Anna]} {}\n"
