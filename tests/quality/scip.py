"""Reads a SCIP index: the protobuf wire format, the documents with their occurrences, and the grammar of symbols.

Only what the oracle needs is decoded; unknown fields are skipped as protobuf asks. Damaged input raises `ScipError`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BITS = 70

# Field numbers of scip.proto.
_INDEX_DOCUMENTS = 2
_DOCUMENT_PATH, _DOCUMENT_OCCURRENCES = 1, 2
_OCCURRENCE_RANGE, _OCCURRENCE_SYMBOL, _OCCURRENCE_ROLES = 1, 2, 3

DEFINITION_ROLE = 1


class ScipError(ValueError):
    """The bytes are not a SCIP index, or the text is not a SCIP symbol."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One use or definition of a symbol; line and columns count from 0, columns in UTF-16 code units."""

    line: int
    start: int
    end: int
    symbol: str
    roles: int

    @property
    def is_definition(self) -> bool:
        """True where the symbol is defined rather than used."""
        return bool(self.roles & DEFINITION_ROLE)


@dataclass(frozen=True, slots=True)
class Document:
    """One source file of the index."""

    path: str
    occurrences: tuple[Occurrence, ...]


@dataclass(frozen=True, slots=True)
class Descriptor:
    """One step of a symbol's path; the suffix says what it is: `/` module, `#` class, `().` function, `.` variable."""

    name: str
    suffix: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """A parsed global symbol."""

    package: str
    version: str
    descriptors: tuple[Descriptor, ...]

    @property
    def is_callable(self) -> bool:
        """True for functions, methods and classes: what a call can reach for certain."""
        return bool(self.descriptors) and self.descriptors[-1].suffix in {"().", "#"}

    @property
    def module(self) -> str:
        """The dotted module path."""
        return ".".join(item.name for item in self.descriptors if item.suffix == "/")

    @property
    def dotted(self) -> str:
        """Module path and qualified name in one, as an import would write it."""
        return ".".join(item.name for item in self.descriptors)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift >= _MAX_VARINT_BITS:
            raise ScipError(f"a number that starts before byte {at} does not end")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of one protobuf message in order: number, and an integer or the bytes it holds."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
            continue
        if wire == _BYTES:
            size, at = _varint(data, at)
        elif wire in {_FIXED64, _FIXED32}:
            size = 8 if wire == _FIXED64 else 4
        else:
            raise ScipError(f"wire type {wire} is unknown")
        if at + size > len(data):
            raise ScipError(f"field {number} is longer than its message")
        yield number, data[at : at + size]
        at += size


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ScipError("a number stands where bytes are expected")
    return value


def _numbers(value: int | bytes) -> list[int]:
    """A repeated integer, packed or alone."""
    if isinstance(value, int):
        return [value]
    found, at = [], 0
    while at < len(value):
        number, at = _varint(value, at)
        found.append(number)
    return found


def _occurrence(data: bytes) -> Occurrence:
    place: list[int] = []
    symbol, roles = "", 0
    for number, value in fields(data):
        if number == _OCCURRENCE_RANGE:
            place.extend(_numbers(value))
        elif number == _OCCURRENCE_SYMBOL:
            symbol = _as_bytes(value).decode()
        elif number == _OCCURRENCE_ROLES and isinstance(value, int):
            roles = value
    if len(place) not in {3, 4}:
        raise ScipError(f"a range has {len(place)} numbers")
    return Occurrence(place[0], place[1], place[-1], symbol, roles)


def documents(data: bytes) -> Iterator[Document]:
    """The documents of an index, in file order."""
    for number, value in fields(data):
        if number != _INDEX_DOCUMENTS:
            continue
        path, occurrences = "", []
        for inner, content in fields(_as_bytes(value)):
            if inner == _DOCUMENT_PATH:
                path = _as_bytes(content).decode()
            elif inner == _DOCUMENT_OCCURRENCES:
                occurrences.append(_occurrence(_as_bytes(content)))
        yield Document(path, tuple(occurrences))


def _package_parts(text: str) -> tuple[list[str], str]:
    """Scheme, manager, name and version, then the rest; a space inside a part is written twice."""
    parts: list[str] = []
    at = 0
    while len(parts) < 4:
        part = ""
        while True:
            space = text.find(" ", at)
            if space < 0:
                raise ScipError(f"symbol {text!r} has fewer than four parts before its path")
            part += text[at:space]
            if text[space : space + 2] == "  ":
                part += " "
                at = space + 2
                continue
            at = space + 1
            break
        parts.append(part)
    return parts, text[at:]


def _name(text: str, at: int) -> tuple[str, int]:
    if text[at : at + 1] != "`":
        end = at
        while end < len(text) and (text[end].isalnum() or text[end] in "_+-$"):
            end += 1
        return text[at:end], end
    name = ""
    at += 1
    while True:
        tick = text.find("`", at)
        if tick < 0:
            raise ScipError(f"symbol path {text!r} has an open quote")
        name += text[at:tick]
        if text[tick : tick + 2] == "``":
            name += "`"
            at = tick + 2
            continue
        return name, tick + 1


def _descriptor(text: str, at: int) -> tuple[Descriptor, int]:
    opening = text[at]
    if opening in "([":
        name, end = _name(text, at + 1)
        closing = ")" if opening == "(" else "]"
        if text[end : end + 1] != closing:
            raise ScipError(f"symbol path {text!r} does not close {opening!r}")
        return Descriptor(name, opening + closing), end + 1
    name, end = _name(text, at)
    suffix = text[end : end + 1]
    if suffix == "(":
        _, close = _name(text, end + 1)
        if text[close : close + 2] != ").":
            raise ScipError(f"symbol path {text!r} has a bad method")
        return Descriptor(name, "()."), close + 2
    if not suffix or suffix not in "/#.:!":
        raise ScipError(f"symbol path {text!r} ends without a suffix")
    return Descriptor(name, suffix), end + 1


def parse_symbol(text: str) -> Symbol | None:
    """A global symbol; None for a local one, which has no name outside of its file."""
    if text.startswith("local "):
        return None
    parts, path = _package_parts(text)
    descriptors, at = [], 0
    while at < len(path):
        descriptor, at = _descriptor(path, at)
        descriptors.append(descriptor)
    return Symbol(parts[2], parts[3], tuple(descriptors))
