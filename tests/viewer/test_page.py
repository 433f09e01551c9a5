"""Text from corpora is data in a page, never markup or script."""

import json
import re
from html.parser import HTMLParser

import pytest

from spacy_elmo.viewer import page
from spacy_elmo.viewer.page import in_frame, make_page, safe_json

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "<!-- <script>",
    "]]>",
    "a\u2028b\u2029c",
    "\"quotes\" and 'others' & &amp;",
    "\\u003c \\ \0 \t",
    "{title} {{data}}",
]
SECTION = {"type": "bars", "heading": "", "columns": [], "measure": "", "rows": [], "note": ""}


class Elements(HTMLParser):
    """The elements of a page as a browser's parser sees them."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.script, self.texts = [], None, {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.script = tag

    def handle_data(self, data):
        self.texts.setdefault(self.script, []).append(data)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_adds_no_element(text):
    found = Elements(make_page(text, [{**SECTION, "heading": text}], about=text))
    usual = Elements(make_page("usual", [SECTION]))
    tags = [tag for tag, _ in found.tags]
    assert tags == [tag for tag, _ in usual.tags] and tags.count("script") == 2
    data = json.loads(found.texts["script"][0])
    assert data["title"] == data["about"] == data["sections"][0]["heading"] == text


def test_json_is_safe_in_a_script():
    text = safe_json({"a": "".join(HOSTILE) + "\ud800 é 語"})
    assert not set(text) & set("<>&\u2028\u2029\ud800")
    assert json.loads(text)["a"].endswith("\ud800 é 語")
    assert "é 語" in text
    text.encode("utf8")
    with pytest.raises(ValueError, match="JSON compliant"):
        safe_json(float("nan"))


def test_a_page_can_send_no_request():
    text = make_page("title", [SECTION])
    attributes = [attributes for _, attributes in Elements(text).tags]
    inline = "script-src 'unsafe-inline'; style-src 'unsafe-inline'"
    policy = f"default-src 'none'; {inline}; img-src data:"
    assert {"http-equiv": "Content-Security-Policy", "content": policy} in attributes
    assert set(re.findall(r"\bhttps?://[^\"'\s]+", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(fetch|XMLHttpRequest|import)\b|@import|url\(", text)


def test_the_script_makes_no_html_of_text():
    source = (page.HERE / "page.js").read_text("utf8")
    making_html = r"</script|<!--|innerHTML|outerHTML|insertAdjacent|document\.write|eval\("
    assert not re.search(making_html, source)


def test_a_frame_is_sandboxed():
    whole = make_page(HOSTILE[0], [SECTION])
    ((tag, attributes),) = Elements(in_frame(whole, HOSTILE[5])).tags
    assert (tag, attributes["srcdoc"], attributes["title"]) == ("iframe", whole, HOSTILE[5])
    assert attributes["sandbox"] == "allow-scripts"
