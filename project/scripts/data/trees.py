"""This module reads trees of sentiment, as the Stanford Sentiment Treebank has them: a tree a line,
with a label at each phrase, as `(3 (2 A) (4 (3 fine) (2 film)))`."""

import re

PIECE = re.compile(r"\(\s*(\S+?)(?=[\s()])|\)|[^\s()]+")


def phrases(tree: str) -> list[str]:
    """List the phrases of a tree.

    tree (str): The tree, in brackets.
    RETURNS (List[str]): Of each phrase its label, a space and its words; the whole first.
    RAISES (ValueError): The brackets do not fit, or a phrase has no words.
    """
    labels: list[str] = []
    words: list[list[str]] = []
    open_phrases: list[int] = []
    for piece in PIECE.finditer(tree):
        if piece[1] is not None:
            if labels and not open_phrases:
                break
            open_phrases.append(len(labels))
            labels.append(piece[1])
            words.append([])
        elif not open_phrases:
            break
        elif piece[0] == ")":
            open_phrases.pop()
        else:
            for phrase in open_phrases:
                words[phrase].append(piece[0])
    else:
        if labels and not open_phrases and all(words):
            return [f"{label} {' '.join(found)}" for label, found in zip(labels, words)]
    raise ValueError(f"expected a tree such as (3 (2 A) (4 film)), found {tree[:60]!r}")
