"""The JSON of a page, and whether it has the form that the script reads."""

import json
import re
from base64 import b64decode

import numpy as np

UNIT = 32_000


def data_of(page):
    """The JSON of a page."""
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert len(found) == 1
    return json.loads(found[0])


def numbers(text):
    """Packed whole numbers."""
    return np.frombuffer(b64decode(text, validate=True), dtype="<u2").astype("int64")


def fractions(text):
    """Packed numbers from -1 to 1."""
    return np.frombuffer(b64decode(text, validate=True), dtype="<i2") / UNIT


COLORING = {"name": str, "kind": str, "of": str, "labels": [str], "typical": [[str]], "note": str}
VIEW = {"facts": str, "places": str, "neighbors": str, "cosines": str, "colorings": [COLORING]}
WORD = {"word": str, "total": int, "notice": str, "before": [str], "itself": [str], "after": [str]}
TABLE = {"heads": [str], "rows": [[str]]}
WORD |= {"origins": [str], "views": [VIEW], "table": TABLE, "changes": {**TABLE, "note": str}}
BAR = {"names": [str], "share": float, "figure": str}
CURVE = {"name": str, "points": [list]}
LINE = {"before": str, "itself": str, "after": str}
FORMS = {
    "senses": {"views": [str], "words": [WORD]},
    "heat": {"views": [str], "rows": [str], "columns": [str], "cosines": [str]},
    "bars": {"heading": str, "columns": [str], "measure": str, "rows": [BAR], "note": str},
    "neighbors": {"heading": str, **LINE, "lines": [{**LINE, "cosine": float}]},
    "curve": {"heading": str, "across": [list], "up": [list], "lines": [CURVE]},
}


def check(data):
    """Check the JSON of a page: the keys of each object, and the kinds and sizes of values."""
    _fits(data, {"title": str, "about": str, "sections": list})
    for section in data["sections"]:
        _fits(section, {"type": str, **FORMS[section["type"]]})
        if section["type"] in SIZES:
            SIZES[section["type"]](section)


def _fits(value, form):
    assert isinstance(value, form if isinstance(form, type) else type(form)), (value, form)
    if isinstance(form, dict):
        assert value.keys() == form.keys(), value.keys() ^ form.keys()
        for key, kind in form.items():
            _fits(value[key], kind)
    elif isinstance(form, list):
        for item in value:
            _fits(item, form[0])


def _senses(section):
    for word in section["words"]:
        n, table = len(word["before"]), word["table"]
        assert n == len(word["itself"]) == len(word["after"]) <= word["total"]
        assert len(word["origins"]) in (0, n)
        for one in (table, word["changes"]):
            assert all(len(row) == len(one["heads"]) for row in one["rows"])
        assert bool(word["notice"]) == (n < 2)
        assert len(word["views"]) == len(table["rows"]) == (n > 1) * len(section["views"])
        for view in word["views"]:
            _view(view, n)


def _view(view, n):
    assert len(fractions(view["places"])) == 2 * n
    assert np.abs(fractions(view["places"])).max() <= 1
    near, cosines = numbers(view["neighbors"]), fractions(view["cosines"])
    assert len(near) == len(cosines) == n * min(10, n - 1)
    assert near.max() < n
    for coloring in view["colorings"]:
        of = numbers(coloring["of"])
        assert len(of) == n
        assert of.max() < len(coloring["labels"])


def _heat(section):
    assert len(section["cosines"]) == len(section["views"])
    for matrix in section["cosines"]:
        assert len(fractions(matrix)) == len(section["rows"]) * len(section["columns"])


def _bars(section):
    for row in section["rows"]:
        assert len(row["names"]) == len(section["columns"])
        assert 0 <= row["share"] <= 1


def _curve(section):
    for place, text in section["across"] + section["up"]:
        assert 0 <= place <= 1 and text.endswith("%")
    for line in section["lines"]:
        for x, y, *texts in line["points"]:
            assert 0 <= x <= 1 and 0 <= y <= 1 and len(texts) == 2


SIZES = {"senses": _senses, "heat": _heat, "bars": _bars, "curve": _curve}
