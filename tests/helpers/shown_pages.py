"""What stands in a page: its JSON, and whether that has the form that the script reads."""

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


def check(data):
    """Check the JSON of a page: the keys of each object, and the kinds and sizes of values."""
    _has(data, title=str, about=str, sections=list)
    for section in data["sections"]:
        KINDS[section["type"]](section)


def _has(value, **kinds):
    assert set(value) == set(kinds), set(value) ^ set(kinds)
    for key, kind in kinds.items():
        assert isinstance(value[key], kind), key


def _strings(values, n=None):
    assert all(isinstance(value, str) for value in values)
    assert n is None or len(values) == n


def _senses(section):
    _has(section, type=str, views=list, words=list)
    _strings(section["views"])
    for word in section["words"]:
        _has(
            word,
            word=str,
            total=int,
            notice=str,
            before=list,
            itself=list,
            after=list,
            views=list,
            table=dict,
        )
        n = len(word["before"])
        assert n <= word["total"]
        for key in ("before", "itself", "after"):
            _strings(word[key], n)
        _has(word["table"], heads=list, rows=list)
        for row in word["table"]["rows"]:
            _strings(row, len(word["table"]["heads"]))
        assert bool(word["notice"]) == (n < 2)
        assert len(word["views"]) == len(word["table"]["rows"]) == (n > 1) * len(section["views"])
        for view in word["views"]:
            _view(view, n)


def _view(view, n):
    _has(view, facts=str, places=str, neighbors=str, cosines=str, colorings=list)
    assert len(fractions(view["places"])) == 2 * n
    assert np.abs(fractions(view["places"])).max() <= 1
    n_neighbors = min(10, n - 1)
    near, cosines = numbers(view["neighbors"]), fractions(view["cosines"])
    assert len(near) == len(cosines) == n * n_neighbors
    assert near.max() < n
    for coloring in view["colorings"]:
        _has(coloring, name=str, kind=str, of=str, labels=list, typical=list, note=str)
        _strings(coloring["labels"])
        of = numbers(coloring["of"])
        assert len(of) == n
        assert of.max() < len(coloring["labels"])
        for words in coloring["typical"]:
            _strings(words)


def _heat(section):
    _has(section, type=str, views=list, rows=list, columns=list, cosines=list)
    for key in ("views", "rows", "columns"):
        _strings(section[key])
    assert len(section["cosines"]) == len(section["views"])
    for matrix in section["cosines"]:
        assert len(fractions(matrix)) == len(section["rows"]) * len(section["columns"])


def _bars(section):
    _has(section, type=str, heading=str, columns=list, measure=str, rows=list, note=str)
    _strings(section["columns"])
    for row in section["rows"]:
        _has(row, names=list, share=float, figure=str)
        _strings(row["names"], len(section["columns"]))
        assert 0 <= row["share"] <= 1


def _neighbors(section):
    _has(section, type=str, heading=str, before=str, itself=str, after=str, lines=list, notice=str)
    for line in section["lines"]:
        _has(line, before=str, itself=str, after=str, cosine=float)


def _curve(section):
    _has(section, type=str, heading=str, across=list, up=list, lines=list)
    for place, text in section["across"] + section["up"]:
        assert 0 <= place <= 1 and text.endswith("%")
    for line in section["lines"]:
        _has(line, name=str, points=list)
        for x, y, *texts in line["points"]:
            assert 0 <= x <= 1 and 0 <= y <= 1 and len(texts) == 2


KINDS = {
    "senses": _senses,
    "heat": _heat,
    "bars": _bars,
    "neighbors": _neighbors,
    "curve": _curve,
}
