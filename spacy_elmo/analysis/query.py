"""A token of a sentence, as the command line names it."""

from collections.abc import Sequence


def find_token(tokens: Sequence[str], wanted: str) -> int:
    """Find the token that is meant.

    tokens (Sequence[str]): The sentence.
    wanted (str): A position, counted from 0; or a word that stands there once.
    RETURNS (int): Its position.
    RAISES (ValueError): There is no such token, or there are several.
    """
    if not tokens:
        raise ValueError("the sentence has no token")
    places = [i for i, token in enumerate(tokens) if token == wanted]
    stands_at = " or ".join(map(str, places))
    if wanted.isascii() and wanted.isdigit():
        if int(wanted) < len(tokens):
            return int(wanted)
        meant = f". The word '{wanted}' is token {stands_at}" if places else ""
        raise ValueError(
            f"there is no token {wanted}: those of the sentence are 0 to {len(tokens) - 1}{meant}"
        )
    if len(places) == 1:
        return places[0]
    if places:
        raise ValueError(
            f"'{wanted}' stands {len(places)} times in the sentence: give the position, {stands_at}"
        )
    numbered = ", ".join(f"{i} {token}" for i, token in enumerate(tokens))
    raise ValueError(f"no token of the sentence is '{wanted}': it has {numbered}")
