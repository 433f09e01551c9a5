"""The strings that a token encoder has embeddings of: code points or words."""

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Optional


class InputVocabulary:
    """Strings by id. What the softmax predicts is another vocabulary.

    strings (Sequence[Optional[str]]): The string of every id; None where an id has none.
    RAISES (ValueError): A string stands twice.
    """

    def __init__(self, strings: Sequence[Optional[str]]):
        self.strings = tuple(strings)
        self._ids = {string: i for i, string in enumerate(self.strings) if string is not None}
        if len(self._ids) + self.strings.count(None) != len(self.strings):
            twice = next(
                s for i, s in enumerate(self.strings) if s is not None and self._ids[s] != i
            )
            raise ValueError(f"{twice!r} stands twice in the vocabulary")

    def __len__(self) -> int:
        return len(self.strings)

    def __contains__(self, string: object) -> bool:
        return string in self._ids

    def __getitem__(self, string: str) -> int:
        return self._ids[string]

    def __deepcopy__(self, memo: object) -> "InputVocabulary":
        return self  # it never changes

    def ids_of(self, strings: Iterable[str], unknown: int) -> list[int]:
        """Look strings up.

        strings (Iterable[str]): The strings.
        unknown (int): The id of those that are not there.
        RETURNS (List[int]): Their ids.
        """
        return [self._ids.get(string, unknown) for string in strings]

    def to_bytes(self) -> bytes:
        """RETURNS (bytes): The vocabulary as JSON."""
        return json.dumps(self.strings, ensure_ascii=False).encode("utf8", "surrogatepass")

    @classmethod
    def from_bytes(cls, data: bytes) -> "InputVocabulary":
        """Read what `to_bytes` wrote.

        data (bytes): JSON.
        RETURNS (InputVocabulary): The vocabulary.
        RAISES (ValueError): It is none.
        """
        try:
            strings = json.loads(data.decode("utf8", "surrogatepass"))
        except RecursionError as error:
            raise ValueError("no list of strings") from error
        if not isinstance(strings, list) or not all(
            string is None or isinstance(string, str) for string in strings
        ):
            raise ValueError("no list of strings")
        return cls(strings)


class Vocabularies(NamedTuple):
    """What a token encoder looks up besides bytes.

    characters (Optional[InputVocabulary]): Code points, and the marks.
    words (Optional[InputVocabulary]): Words, and the marks.
    """

    characters: Optional[InputVocabulary] = None
    words: Optional[InputVocabulary] = None
