"""Named entities of UD GUM, in the form of Universal NER.

GUM marks all mentions, also nested ones and common nouns ("the old mayor of Paris"). A mention of a
person, a place or an organization becomes an entity if its head is a proper noun. The entity is the
name without what stands around it: without titles ("President"), articles and relative clauses.
Among nested names, the longest one remains.
"""

from collections.abc import Iterator, Sequence

from .convert_coref import BRACKETS

LABELS = {"person": "PER", "place": "LOC", "organization": "ORG"}
# Words that can connect proper nouns to one name, by type of mention.
CONNECTORS = {
    "person": {"-"},
    "place": {"-", "of", "the"},
    "organization": {"-", "of", "the", "and", "&", "for", "'s"},
}
PROPER = ("NNP", "NNPS")
TITLE = "nmod:desc"


def named_entities(lines: Sequence[str]) -> list[tuple[int, int, str]]:
    """Return start, end and label of the named entities of a sentence.

    lines (Sequence[str]): The lines of the sentence in CoNLL-U, with the key `Entity` in MISC.
    RETURNS (List[Tuple[int, int, str]]): The entities, in order. They do not overlap.
    """
    rows = [line.split("\t") for line in lines]
    words = [row for row in rows if row[0].isdigit()]
    found = []
    for start, end, kind in mentions(words):
        if kind in LABELS:
            name = name_in(words, start, end, kind)
            if name is not None:
                found.append((*name, LABELS[kind]))
    longest: list[tuple[int, int, str]] = []
    for one in sorted(found, key=lambda span: span[0] - span[1]):
        if all(one[1] <= start or end <= one[0] for start, end, _ in longest):
            longest.append(one)
    return sorted(longest)


def mentions(words: Sequence[list[str]]) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and type of the mentions that begin and end in a sentence."""
    opened: dict[str, list[tuple[int, str]]] = {}
    for token, row in enumerate(words):
        keys = dict(pair.split("=", 1) for pair in row[9].split("|") if "=" in pair)
        for begins, mention, ends in BRACKETS.findall(keys.get("Entity", "")):
            name, _, rest = mention.partition("-")
            if begins:
                opened.setdefault(name, []).append((token, rest.partition("-")[0]))
            if ends and opened.get(name):
                start, kind = opened[name].pop()
                yield start, token + 1, kind


def name_in(words: Sequence[list[str]], start: int, end: int, kind: str) -> tuple[int, int] | None:
    """Return start and end of the name at the head of a mention; None if it has no name."""
    heads = [i for i in range(start, end) if not start <= int(words[i][6]) - 1 < end]
    if len(heads) != 1 or not is_name(words[heads[0]]):
        return None
    first = last = heads[0]
    for i in range(first - 1, start - 1, -1):
        if is_name(words[i]):
            first = i
        elif words[i][1] not in CONNECTORS[kind]:
            break
    for i in range(last + 1, end):
        if is_name(words[i]):
            last = i
        elif words[i][1] not in CONNECTORS[kind]:
            break
    return first, last + 1


def is_name(word: Sequence[str]) -> bool:
    """Return whether a word is a proper noun and no title.

    The tag decides, because the part of speech of "United" in "United States" is ADJ.
    """
    return word[4] in PROPER and word[7] != TITLE
