"""Schemas for JSON. Error messages name the first wrong key."""

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Union

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

SHOWN = 40  # Characters of a wrong value in a message.
CHECKSUM = "checksum"  # Key that `seal` adds.

String = Annotated[str, Field(strict=True)]
Integer = Annotated[int, Field(strict=True)]
Natural = Annotated[int, Field(strict=True, ge=0)]
Positive = Annotated[int, Field(strict=True, ge=1)]


class Schema:
    """Parser of JSON objects that checks the keys and the types of their values.

    Other keys are ignored.

    fields (Mapping[str, Any]): The type of each key's value. A type can be `NotRequired`.
    example (str): An example for error messages, or "".
    """

    def __init__(self, fields: Mapping[str, Any], example: str = "") -> None:
        self.adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(record(fields))
        self.example = example

    def parse(self, text: Union[str, bytes]) -> dict[str, Any]:
        """Parse and check an object.

        text (Union[str, bytes]): JSON.
        RETURNS (Dict[str, Any]): The values by key.
        RAISES (ValueError): The text is not JSON, or a key is missing or has another type.
        """
        try:
            return self.adapter.validate_json(text)
        except ValidationError as error:
            expected = f": expected {self.example}" if self.example else ""
            raise ValueError(_describe(error.errors(include_url=False)[0]) + expected) from None

    def read_sealed(self, text: Union[str, bytes], version: int) -> dict[str, Any]:
        """Parse a file that spacy-elmo wrote, and check its `format_version` and checksum.

        Unlike `parse`, this keeps keys that are not in the schema, and accepts strings that UTF-8
        cannot encode, such as some file names.

        text (Union[str, bytes]): The content of the file, in JSON.
        version (int): The only version of the format that can be read.
        RETURNS (dict): The object.
        RAISES (ValueError): The text does not fit the schema, has another version, or was changed.
        """
        try:
            content = json.loads(text)
            found = content.get("format_version") if isinstance(content, dict) else None
            if type(found) is int and found != version:
                raise ValueError(
                    f"it has version {found}, but this package reads version {version}"
                )
            self.adapter.validate_python(content)
            if content.get(CHECKSUM) != _digest(content):
                raise ValueError("the checksum is wrong: the file was changed or damaged")
        except json.JSONDecodeError as error:
            raise ValueError(f"this is not JSON ({error})") from None
        except ValidationError as error:
            raise ValueError(_describe(error.errors(include_url=False)[0])) from None
        except RecursionError:
            raise ValueError("the JSON is nested too deeply") from None
        return dict(content)


def record(fields: Mapping[str, Any]) -> Any:
    """Return a `TypedDict` with the keys of `fields`, and their types."""
    return TypedDict("Object", dict(fields))  # type: ignore[operator]


def records(fields: Mapping[str, Any]) -> Any:
    """Return the type of a list of dicts with the keys and types of `fields`. See `record`."""
    return list[record(fields)]  # type: ignore[misc]


def seal(content: dict[str, Any]) -> dict[str, Any]:
    """Add a checksum to an object.

    content (dict): A JSON object.
    RETURNS (dict): A copy with the key `checksum`.
    """
    return {**content, CHECKSUM: _digest(content)}


def _digest(content: dict[str, Any]) -> str:
    others = {name: value for name, value in content.items() if name != CHECKSUM}
    return hashlib.sha256(json.dumps(others, sort_keys=True).encode("ascii")).hexdigest()


def _describe(wrong: Mapping[str, Any]) -> str:
    """Return the message of a pydantic error in a few words, with the place of the wrong value."""
    if wrong["type"] == "json_invalid":
        # The JSON may be one line of a file, so "line 1" would mislead.
        error = wrong["ctx"]["error"].replace("at line 1 column", "at character")
        return f"this is not JSON ({error})"
    place = _place(wrong["loc"])
    if wrong["type"] == "missing":
        return f"{place} is missing"
    what = wrong["msg"].removeprefix("Value error, ").removeprefix("Input ")
    found = json.dumps(wrong["input"], ensure_ascii=False)
    found = found if len(found) <= SHOWN else found[: SHOWN - 3] + "..."
    return f"{place} {what[0].lower()}{what[1:]}, got {found}"


def _place(loc: tuple[Union[str, int], ...]) -> str:
    """Format the location of a pydantic error: `"answers"[0]["text"]`."""
    if not loc:
        return "the value"
    first, *rest = (json.dumps(key, ensure_ascii=False) for key in loc)
    return first + "".join(f"[{key}]" for key in rest)
