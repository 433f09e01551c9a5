"""The entry for spaCy's universe."""

import contextlib
import io
import json
import re

from helpers.page_blocks import ROOT

# Keys that the README of spaCy's website asks for, without those of the repository's address.
KEYS = {"id", "title", "slogan", "description", "pip", "code_example", "category", "tags", "author"}
CATEGORIES = {"pipeline", "standalone", "models", "training", "research", "visualizers"}


def test_entry():
    entry = json.loads((ROOT / "docs" / "universe.json").read_text("utf8"))
    assert entry.keys() >= KEYS
    assert set(entry["category"]) <= CATEGORIES
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec("\n".join(entry["code_example"]), {})
    shapes, similarity = printed.getvalue().splitlines()
    assert shapes == "(14, 256) (256,)"
    # Two senses, far from equal: equal words without a context would have 1.
    assert re.fullmatch(r"0\.[4-8]\d*", similarity)
