"""Types of values in users' JSON lines."""

from typing import Annotated, Union

from pydantic import Field, PlainValidator


def _check_text(value: object) -> object:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError("should be a text, or a list of its words")
    return value


Words = list[Annotated[str, Field(strict=True, min_length=1)]]
Text = Annotated[Union[str, list[str]], PlainValidator(_check_text)]
