"""The reader of SCIP indexes, on bytes made by hand."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quality.scip import Descriptor, Occurrence, ScipError, documents, fields, parse_symbol


def varint(number: int) -> bytes:
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def message(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def scalar(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def occurrence(place: list[int], symbol: str, roles: int = 0) -> bytes:
    return message(1, b"".join(varint(at) for at in place)) + message(2, symbol.encode()) + scalar(3, roles)


def index(*files: tuple[str, list[bytes]]) -> bytes:
    found = message(1, b"")
    for path, occurrences in files:
        found += message(2, message(1, path.encode()) + b"".join(message(2, item) for item in occurrences))
    return found


@given(st.integers(0, 2**64 - 1), st.binary(max_size=300))
def test_fields_come_back_as_they_were_written(number: int, content: bytes) -> None:
    data = scalar(3, number) + message(7, content) + varint(9 << 3 | 5) + b"abcd" + varint(10 << 3 | 1) + b"12345678"
    assert list(fields(data)) == [(3, number), (7, content), (9, b"abcd"), (10, b"12345678")]


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(ScipError, UnicodeDecodeError):
        list(documents(data))


def test_an_index_is_read_into_documents() -> None:
    data = index(
        ("a.py", [occurrence([3, 4, 7], "local 1"), occurrence([300, 4, 301, 2], "x", roles=1)]),
        ("b/c.py", []),
    )
    first, second = documents(data)
    assert (first.path, second.path, second.occurrences) == ("a.py", "b/c.py", ())
    assert first.occurrences == (Occurrence(3, 4, 7, "local 1", 0), Occurrence(300, 4, 2, "x", 1))
    assert [item.is_definition for item in first.occurrences] == [False, True]


def test_unknown_fields_of_later_versions_are_skipped() -> None:
    data = index(("a.py", [occurrence([0, 0, 1], "s") + scalar(99, 5) + message(98, b"new")])) + message(55, b"new")
    (document,) = documents(data)
    assert document.occurrences[0].symbol == "s"


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x12", id="message_without_length"),
        pytest.param(b"\x12\x05abc", id="message_cut_short"),
        pytest.param(b"\x80" * 12, id="number_that_never_ends"),
        pytest.param(b"\x13", id="group_wire_type"),
        pytest.param(index(("a.py", [message(1, b"\x01")])), id="range_of_one_number"),
        pytest.param(scalar(2, 7), id="number_where_a_document_belongs"),
    ],
)
def test_damaged_index_is_refused(data: bytes) -> None:
    with pytest.raises(ScipError):
        list(documents(data))


def test_symbols_name_module_and_qualified_name() -> None:
    method = parse_symbol("scip-python python urllib3 2.8.0 `urllib3.util.retry`/Retry#from_int().")
    assert method is not None
    assert method.dotted == "urllib3.util.retry.Retry.from_int"
    assert method.module == "urllib3.util.retry"
    assert method.is_callable
    function = parse_symbol("scip-python python python-stdlib 3.11 genericpath/isdir().")
    assert function is not None
    assert (function.package, function.version, function.dotted) == ("python-stdlib", "3.11", "genericpath.isdir")


@pytest.mark.parametrize(
    ("path", "called"),
    [
        ("`a.b`/C#", True),
        ("`a.b`/f().", True),
        ("`a.b`/f(+1).", True),
        ("`a.b`/x.", False),
        ("`a.b`/__init__:", False),
        ("`a.b`/f().(parameter)", False),
        ("`a.b`/C#[T]", False),
    ],
)
def test_only_functions_methods_and_classes_are_callable(path: str, called: bool) -> None:
    symbol = parse_symbol(f"scip-python python p 1 {path}")
    assert symbol is not None
    assert symbol.is_callable is called


def test_a_local_symbol_has_no_name() -> None:
    assert parse_symbol("local 12") is None


def test_quotes_and_double_spaces_are_undone() -> None:
    symbol = parse_symbol("scip-python python odd  name 1 `a``b c`/x.")
    assert symbol is not None
    assert symbol.package == "odd name"
    assert symbol.descriptors == (Descriptor("a`b c", "/"), Descriptor("x", "."))


@pytest.mark.parametrize("text", ["scip-python python p", "a b c d `open/x.", "a b c d f(", "a b c d f", "a b c d (p"])
def test_malformed_symbol_is_refused(text: str) -> None:
    with pytest.raises(ScipError):
        parse_symbol(text)
