"""Canonical JSON for records that are hashed, and strict decoding of whatever came from outside.

Canonical: UTF-8, keys sorted, no spaces, integers only, escapes as RFC 8785 has them. Decoding is stricter than JSON:
duplicate keys, unknown or missing fields, floats, integers beyond 2^53 - 1, `true` for an integer, upper-case hex,
padded or loose base64, NUL and lone surrogates are refused, each with the place where it was found.

A decoder is a function from (value, place) to a typed result; small ones are combined into large ones.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from knowing_protocol.errors import MalformedError

MAX_INTEGER: Final = 2**53 - 1
_HEX_DIGITS: Final = frozenset("0123456789abcdef")

T = TypeVar("T")
Decoder: TypeAlias = Callable[[Any, str], T]


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_json(value: object) -> bytes:
    """The one encoding of a record."""
    return _CANONICAL.encode(value).encode()


def parse_json(data: bytes, limit: int) -> Any:
    """JSON from outside, as plain values; nothing is trusted but that it is bounded and unambiguous."""
    if len(data) > limit:
        raise MalformedError(f"the document has {len(data)} bytes; at most {limit} are read", code="too-large")
    try:
        text = data.decode()
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_integer_literal,
            parse_float=_no_float,
            parse_constant=_no_float,
        )
    except UnicodeDecodeError:
        raise MalformedError("the document is not UTF-8", code="not-utf8") from None
    except RecursionError:
        raise MalformedError("the document is nested too deeply", code="too-deep") from None
    except json.JSONDecodeError as error:
        raise MalformedError(f"the document is not JSON: {error.msg} at {error.pos}", code="not-json") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise MalformedError("an object has the same key twice", code="duplicate-key")
    return found


def _integer_literal(text: str) -> int:
    if len(text) > 17 or text == "-0" or abs(int(text)) > MAX_INTEGER:
        raise MalformedError(f"the integer {text[:20]} is out of range", code="integer-range")
    return int(text)


def _no_float(text: str) -> Any:
    raise MalformedError(f"{text[:20]} is not an integer", code="wrong-type")


def _wrong(place: str, wanted: str) -> MalformedError:
    return MalformedError(f"{place} is not {wanted}", code="wrong-type")


def text(limit: int = 4096, *, empty: bool = True) -> Decoder[str]:
    """A string of at most `limit` UTF-8 bytes, without NUL."""

    def decode(value: Any, place: str) -> str:
        if not isinstance(value, str):
            raise _wrong(place, "a string")
        if len(value) > limit:
            raise MalformedError(f"{place} is longer than {limit} bytes", code="too-long")
        try:
            size = len(value.encode())
        except UnicodeEncodeError:
            raise MalformedError(f"{place} is not valid Unicode", code="not-unicode") from None
        if size > limit:
            raise MalformedError(f"{place} is longer than {limit} bytes", code="too-long")
        if "\0" in value:
            raise MalformedError(f"{place} contains NUL", code="nul")
        if not value and not empty:
            raise MalformedError(f"{place} is empty", code="empty")
        return value

    return decode


def boolean(value: Any, place: str) -> bool:
    """`true` or `false`."""
    if not isinstance(value, bool):
        raise _wrong(place, "true or false")
    return value


def integer(value: Any, place: str) -> int:
    """A whole number from 0 to 2^53 - 1; `true` is none."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(place, "an integer")
    if not 0 <= value <= MAX_INTEGER:
        raise MalformedError(f"{place} is out of range", code="integer-range")
    return value


def hexadecimal(value: Any, place: str) -> bytes:
    """Bytes in lower-case hex, at most 64 of them."""
    if not isinstance(value, str):
        raise _wrong(place, "a string")
    if len(value) > 128 or len(value) % 2 or not _HEX_DIGITS.issuperset(value):
        raise MalformedError(f"{place} is not lower-case hex", code="not-canonical-hex")
    return bytes.fromhex(value)


def digest(value: Any, place: str) -> bytes:
    """A 32-byte hash in lower-case hex."""
    found = hexadecimal(value, place)
    if len(found) != 32:
        raise MalformedError(f"{place} has {len(found)} bytes, not 32", code="wrong-length")
    return found


def base64(limit: int) -> Decoder[bytes]:
    """At most `limit` bytes in standard base64 with padding, in its one canonical spelling."""

    def decode(value: Any, place: str) -> bytes:
        if not isinstance(value, str):
            raise _wrong(place, "a string")
        if len(value) > limit * 4 // 3 + 4:
            raise MalformedError(f"{place} is longer than {limit} bytes", code="too-long")
        try:
            found = b64decode(value, validate=True)
        except (Base64Error, ValueError):
            raise MalformedError(f"{place} is not base64", code="not-base64") from None
        if len(found) > limit:
            raise MalformedError(f"{place} is longer than {limit} bytes", code="too-long")
        if b64encode(found).decode() != value:
            raise MalformedError(f"{place} is not canonical base64", code="not-base64")
        return found

    return decode


def to_base64(data: bytes) -> str:
    """The canonical base64 text of bytes."""
    return b64encode(data).decode()


def optional(inner: Decoder[T]) -> Decoder[T | None]:
    """`null`, or what the inner decoder takes."""

    def decode(value: Any, place: str) -> T | None:
        return None if value is None else inner(value, place)

    return decode


def one_of(*choices: str) -> Decoder[str]:
    """One of a few fixed strings."""

    def decode(value: Any, place: str) -> str:
        if not isinstance(value, str):
            raise _wrong(place, "a string")
        if value not in choices:
            raise MalformedError(f"{place} is not one of {', '.join(choices[:12])}", code="unknown-value")
        return value

    return decode


def sequence(inner: Decoder[T], limit: int) -> Decoder[tuple[T, ...]]:
    """A list of at most `limit` things."""

    def decode(value: Any, place: str) -> tuple[T, ...]:
        if not isinstance(value, list):
            raise _wrong(place, "a list")
        if len(value) > limit:
            raise MalformedError(f"{place} has more than {limit} items", code="too-long")
        return tuple([inner(item, f"{place}[{index}]") for index, item in enumerate(value)])

    return decode


def tally(keys: frozenset[str]) -> Decoder[dict[str, int]]:
    """An object from some of the known keys to counts above zero."""

    def decode(value: Any, place: str) -> dict[str, int]:
        found = _dictionary(value, place)
        for key in found:
            if key not in keys:
                raise MalformedError(f"{place} has the unknown field {key[:40]!r}", code="unknown-field")
            if integer(found[key], f"{place}.{key}") == 0:
                raise MalformedError(f"{place}.{key} is zero and must be left out", code="not-canonical")
        return dict(sorted(found.items()))

    return decode


def record(
    fields: Mapping[str, Decoder[Any]], lists: Mapping[str, Decoder[Any]] | None = None
) -> Decoder[dict[str, Any]]:
    """An object with exactly these fields; those among `lists` are left out where they are empty, and only there."""
    lists = lists or {}

    def decode(value: Any, place: str) -> dict[str, Any]:
        found = _dictionary(value, place)
        for key in found:
            if key not in fields and key not in lists:
                raise MalformedError(f"{place} has the unknown field {key[:40]!r}", code="unknown-field")
        for key in fields:
            if key not in found:
                raise MalformedError(f"{place} has no field {key!r}", code="missing-field")
        decoded = {key: inner(found[key], f"{place}.{key}") for key, inner in fields.items()}
        for key, inner in lists.items():
            decoded[key] = inner(found[key], f"{place}.{key}") if key in found else ()
            if key in found and not decoded[key]:
                raise MalformedError(f"{place}.{key} is empty and must be left out", code="not-canonical")
        return decoded

    return decode


def _dictionary(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _wrong(place, "an object")
    return value
