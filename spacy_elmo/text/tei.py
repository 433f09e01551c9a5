"""Text of TEI files (https://tei-c.org/guidelines), the usual XML of digital editions.

The rules know TEI's elements, but no language. An element that is not in the lists below is read,
because most of TEI's 580 elements mark words in a sentence, such as `<hi>`, `<persName>` or
`<foreign>`. Only a few elements contain words that do not belong to the sentence around them.
"""

import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from ..files.errors import named_errors

# Elements that are skipped: they interrupt the sentences, or the editor wrote them.
LEFT_OUT = frozenset(
    (
        *("back", "castList", "del", "desc", "figure", "formula", "front", "fw", "gap", "head"),
        *("index", "label", "note", "speaker", "stage", "table", "trailer"),
    )
)
# Elements that are paragraphs even within other text.
PARAGRAPHS = frozenset(("ab", "item", "l", "p"))
# Empty elements between two lines, columns, pages or sections. They separate words, unless they
# have break="no" (TEI's class att.breaking).
BREAKS = frozenset(("cb", "gb", "lb", "milestone", "pb"))
# Elements that contain versions of the same words, and the versions to prefer: the words of the
# printed page, or else the first version.
ALTERNATIVES = {"choice": ("sic", "orig", "abbr"), "app": ("lem",)}
_XML_ID = "{http://www.w3.org/XML/1998/namespace}id"
# XML cannot contain these characters, so they mark places in the text.
_PARAGRAPH, _NO_BREAK = "\0", "\1"
_HYPHEN = "[-=¬⸗\u2010\u00ad]"


def read_tei(file: BinaryIO, left_out: Iterable[str] = LEFT_OUT) -> str:
    """Return the running text of a TEI file.

    file (BinaryIO): The file.
    left_out (Iterable[str]): Names of the elements to skip. Default: `LEFT_OUT`.
    RETURNS (str): The text of the elements `<text>`. An empty line separates paragraphs, and the
        line breaks of the file stay. An empty string, if the file has no `<text>`.
    RAISES (ValueError): The file is not XML, or its elements are nested too deeply.
    """
    kinds = ElementTree.ParseError, LookupError, ValueError
    with named_errors("cannot be read as XML", kinds):
        root = ElementTree.parse(file).getroot()
    reader = _Reader(frozenset(left_out), {*_ids_of_notes(root)})
    try:
        reader.read_texts(root)
    except RecursionError:
        raise ValueError("its elements are nested too deeply") from None
    return _with_paragraphs("".join(reader.parts))


class _Reader:
    """Reader that collects the text of elements in `parts`.

    left_out (FrozenSet[str]): Names of the elements to skip.
    notes (Set[str]): Ids of the notes, which footnote marks point to.
    """

    def __init__(self, left_out: frozenset[str], notes: set[str]):
        self.left_out = left_out
        self.notes = notes
        self.parts: list[str] = []

    def read_texts(self, element: Element) -> None:
        """Read the outermost elements `<text>`: the others are parts of them."""
        if _name(element) == "text":
            self.read(element, in_paragraph=False)
        else:
            for child in element:
                self.read_texts(child)

    def read(self, element: Element, in_paragraph: bool) -> None:
        """Read an element.

        element (Element): The element.
        in_paragraph (bool): Whether the element is a part of a paragraph. Other elements are
            separate paragraphs, such as `<signed>` in `<closer>`.
        """
        name = _name(element)
        is_separate = not in_paragraph or name in PARAGRAPHS
        if name in BREAKS:
            self.parts.append(_NO_BREAK if element.get("break") == "no" else "\n")
        elif name in self.left_out or (name == "ref" and self._is_mark(element)):
            return
        elif name in ALTERNATIVES:
            for child in _preferred(element):
                self.read(child, in_paragraph)
        else:
            # A file with an element for each word often has no spaces between the words.
            around = _PARAGRAPH if is_separate else " " if name == "w" else ""
            has_text = any(text.strip() for text in _own_text(element))
            in_paragraph = in_paragraph or name in PARAGRAPHS or has_text
            self.parts += around, element.text or ""
            for child in element:
                self.read(child, in_paragraph)
                self.parts.append(child.tail or "")
            self.parts.append(around)

    def _is_mark(self, ref: Element) -> bool:
        """Return whether a `<ref>` is a footnote mark: `(1)`, `*`, or a link to a note."""
        has_letters = any(map(str.isalpha, "".join(ref.itertext())))
        return not has_letters or ref.get("target", "").removeprefix("#") in self.notes


def _ids_of_notes(root: Element) -> Iterator[str]:
    for element in root.iter():
        if _name(element) == "note":
            yield element.get(_XML_ID) or element.get("id") or ""


def _preferred(element: Element) -> list[Element]:
    """Return the version to read of an element with alternatives: one element, or none."""
    children = [*element]
    names = [*map(_name, children)]
    for name in ALTERNATIVES[_name(element)]:
        if name in names:
            return [children[names.index(name)]]
    return children[:1]


def _own_text(element: Element) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        yield child.tail or ""


def _name(element: Element) -> str:
    """Return the name of an element, without the namespace."""
    return element.tag.rpartition("}")[2]


def _with_paragraphs(text: str) -> str:
    """Return the text with normal white space, and without marks of places."""
    # A hyphen before a break is the printer's, also if the word continues after the break.
    text = re.sub(rf"({_HYPHEN})\s*{_NO_BREAK}[\s{_NO_BREAK}]*", r"\1\n", text)
    text = re.sub(rf"\s*{_NO_BREAK}[\s{_NO_BREAK}]*", "", text)
    text = re.sub(r"[ \t]+", " ", re.sub(r"\s*\n\s*", "\n", text))
    paragraphs: list[str] = []
    for paragraph in filter(None, map(str.strip, text.split(_PARAGRAPH))):
        if paragraphs and _continues(paragraphs[-1], paragraph):
            paragraphs[-1] += f"\n{paragraph}"
        else:
            paragraphs.append(paragraph)
    return "".join(f"{paragraph}\n\n" for paragraph in paragraphs).removesuffix("\n")


def _continues(before: str, after: str) -> bool:
    """Return whether a sentence goes on in the next paragraph, as at the end of a page."""
    return after[0].islower() and (before[-1].isalpha() or before[-1] in ",-")
