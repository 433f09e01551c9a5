"""What users' JSON must be like; what is wrong in it is named by its key."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Union

from pydantic import Field, PlainValidator, TypeAdapter, ValidationError
from typing_extensions import TypedDict

SHOWN = 40  # characters of a wrong value


def _check_text(value: object) -> object:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError("should be a text, or a list of its words")
    return value


String = Annotated[str, Field(strict=True)]
Integer = Annotated[int, Field(strict=True)]
Words = list[Annotated[str, Field(strict=True, min_length=1)]]
Text = Annotated[Union[str, list[str]], PlainValidator(_check_text)]


class Schema:
    """What a line, or a file, must be like. Other keys are ignored.

    fields (Mapping[str, Any]): The type of each key, which may be `NotRequired`.
    example (str): How it looks, for errors.
    """

    def __init__(self, fields: Mapping[str, Any], example: str) -> None:
        self.adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(_object(fields))
        self.example = example

    def parse(self, text: Union[str, bytes]) -> dict[str, Any]:
        """Read what stands there.

        text (Union[str, bytes]): JSON.
        RETURNS (Dict[str, Any]): What stands there, by key.
        RAISES (ValueError): It is not as it must be; the first wrong key is named.
        """
        try:
            return self.adapter.validate_json(text)
        except ValidationError as error:
            wrong = error.errors(include_url=False)[0]
            raise ValueError(f"{_describe(wrong)}: expected {self.example}") from None


def records(fields: Mapping[str, Any]) -> Any:
    """RETURNS (type): A list of dicts with these keys."""
    return list[_object(fields)]  # type: ignore[misc]


def _object(fields: Mapping[str, Any]) -> Any:
    return TypedDict("Object", dict(fields))  # type: ignore[operator]


def _describe(wrong: Mapping[str, Any]) -> str:
    """An error of pydantic's in a few words."""
    if wrong["type"] == "json_invalid":
        # Of a line of a file: "line 1" would be taken for the file's.
        error = wrong["ctx"]["error"].replace("at line 1 column", "at character")
        return f"this is no JSON ({error})"
    place = _place(wrong["loc"])
    if wrong["type"] == "missing":
        return f"{place} is missing"
    what = wrong["msg"].removeprefix("Value error, ").removeprefix("Input ")
    found = json.dumps(wrong["input"], ensure_ascii=False)
    found = found if len(found) <= SHOWN else found[: SHOWN - 3] + "..."
    return f"{place} {what[0].lower()}{what[1:]}, got {found}"


def _place(loc: tuple[Union[str, int], ...]) -> str:
    """Where a value stands: `"answers"[0]["text"]`."""
    if not loc:
        return "what stands here"
    first, *rest = (json.dumps(key, ensure_ascii=False) for key in loc)
    return first + "".join(f"[{key}]" for key in rest)
