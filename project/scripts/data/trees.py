"""Parser of the sentiment trees of the Stanford Sentiment Treebank.

Each phrase has a label: `(3 (2 A) (4 (3 fine) (2 film)))`.
"""

import re

PIECE = re.compile(r"\(\s*(\S+?)(?=[\s()])|\)|[^\s()]+")


def phrases(tree: str) -> list[str]:
    """Return the phrases of a tree.

    tree (str): The tree, in brackets.
    RETURNS (List[str]): Label, space and words of each phrase. The first is the whole sentence.
    RAISES (ValueError): The brackets do not match, or a phrase has no words.
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
