"""Parameters of a query string: each has a JSON schema, and what does not fit it is refused before anything is asked.

The same descriptions make the OpenAPI document, so that it says what is checked and nothing else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from knowingd.errors import UsageError

_INTEGER: Final = re.compile(r"-?[0-9]{1,9}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,400})?([eE][-+]?[0-9]{1,3})?")
_BOOLEANS: Final = {"true": True, "false": False}


class Parameter(NamedTuple):
    """One parameter; `argument` is what the function that answers calls it."""

    name: str
    argument: str
    schema: dict[str, Any]
    about: str
    required: bool = False


def text(longest: int, **more: Any) -> dict[str, Any]:
    """The schema of a text."""
    return {"type": "string", "minLength": 1, "maxLength": longest, **more}


def one_of(values: Sequence[str], **more: Any) -> dict[str, Any]:
    """The schema of one text of several."""
    return {"type": "string", "enum": list(values), **more}


def read(parameters: Sequence[Parameter], given: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The arguments that a query string gives; those that it does not give have their defaults, or None."""
    known = {one.name for one in parameters}
    for name, values in given.items():
        if name not in known:
            raise _bad(f"there is no parameter {name[:60]!r}", f"there are: {', '.join(sorted(known)) or 'none'}")
        if len(values) > 1:
            raise _bad(f"the parameter {name!r} is given more than once", "give it once")
    found = {}
    for one in parameters:
        if one.name in given:
            found[one.argument] = _value(one, given[one.name][0])
        elif one.required:
            raise _bad(f"the parameter {one.name!r} is missing", one.about)
        else:
            found[one.argument] = one.schema.get("default")
    return found


def _value(parameter: Parameter, written: str) -> Any:
    schema = parameter.schema
    value: Any = None
    match schema["type"]:
        case "string":
            fits = schema.get("minLength", 0) <= len(written) <= schema.get("maxLength", len(written))
            value = written if fits and written in schema.get("enum", (written,)) else None
        case "boolean":
            value = _BOOLEANS.get(written)
        case "integer":
            value = _within(int(written), schema) if _INTEGER.fullmatch(written) else None
        case "number":
            value = _within(float(written), schema) if _NUMBER.fullmatch(written) else None
    if value is None:
        raise _bad(f"the parameter {parameter.name!r} cannot be {written[:60]!r}", parameter.about)
    return value


def _within(value: float, schema: Mapping[str, Any]) -> float | None:
    fits = math.isfinite(value) and schema["minimum"] <= value <= schema["maximum"]
    return value if fits else None


def _bad(message: str, hint: str) -> UsageError:
    return UsageError(message, code="parameter", hint=hint)
