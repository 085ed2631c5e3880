"""Canonical JSON out, strict decoding in: every refusal by its name."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from time import perf_counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from knowing_protocol import encoding
from knowing_protocol.encoding import MAX_INTEGER, canonical_json, parse_json, to_base64
from knowing_protocol.errors import MalformedError

LIMIT = 8 * 1024 * 1024


def refusal(action: Callable[[], object]) -> str:
    with pytest.raises(MalformedError) as caught:
        action()
    assert caught.value.exit_code == 3
    return caught.value.code


def parse_refusal(data: bytes) -> str:
    return refusal(lambda: parse_json(data, LIMIT))


def decode_refusal(decoder: encoding.Decoder[Any], value: object) -> str:
    """The code of a refusal, which must also name the place."""
    with pytest.raises(MalformedError) as caught:
        decoder(value, "the place")
    assert "the place" in caught.value.message
    return caught.value.code


# The document


def test_document_within_its_limit_is_read() -> None:
    assert parse_json(b' {"a": [1, -5, true, null, "x"]} ', 33) == {"a": [1, -5, True, None, "x"]}
    assert refusal(lambda: parse_json(b' {"a": [1, -5, true, null, "x"]} ', 32)) == "too-large"


@pytest.mark.parametrize(
    "data",
    [
        b'{"a": 1, "a": 1}',
        b'{"a": 1, "b": 2, "a": 3}',
        rb'{"a": 1, "\u0061": 2}',
        b'[{"x": {"": 0, "": 0}}]',
    ],
)
def test_duplicate_key_is_refused(data: bytes) -> None:
    assert parse_refusal(data) == "duplicate-key"


@pytest.mark.parametrize("number", ["1.0", "0.5", "-0.0", "1e3", "1E3", "1e-3", "0e0", "1.0e400", "1" * 5000 + ".5"])
def test_float_is_refused(number: str) -> None:
    assert parse_refusal(f"[{number}]".encode()) == "wrong-type"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_not_a_number_is_refused(number: str) -> None:
    assert parse_refusal(f"[{number}]".encode()) == "wrong-type"


def test_minus_zero_is_refused() -> None:
    assert parse_refusal(b"-0") == "integer-range"
    assert parse_refusal(b"[0, -0]") == "integer-range"
    assert parse_json(b"0", LIMIT) == 0


@pytest.mark.parametrize("number", [2**53, -(2**53), 2**53 + 1, 10**16, -(10**16), 2**64, 10**17])
def test_integer_beyond_2_to_the_53_is_refused(number: int) -> None:
    assert parse_refusal(str(number).encode()) == "integer-range"


def test_integer_up_to_2_to_the_53_is_read() -> None:
    for number in (MAX_INTEGER, -MAX_INTEGER, 0, 1, -1):
        assert parse_json(str(number).encode(), LIMIT) == number


@pytest.mark.parametrize("text", ["1" * 1_000_000, "-" + "9" * 1_000_000, "[" + "7" * 1_000_000 + "]"])
def test_integer_of_a_million_digits_is_refused_quickly(text: str) -> None:
    start = perf_counter()
    assert parse_refusal(text.encode()) == "integer-range"
    assert perf_counter() - start < 0.5


@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"b":'])
@pytest.mark.parametrize("closed", [True, False])
def test_nesting_of_100_000_brackets_is_refused_quickly(opening: str, *, closed: bool) -> None:
    closing = "".join({"[": "]", "{": "}"}[one] for one in reversed(opening) if one in "[{")
    text = opening * 100_000 + ("1" + closing * 100_000 if closed else "")
    start = perf_counter()
    assert parse_refusal(text.encode()) == "too-deep"
    assert perf_counter() - start < 1


def test_invalid_utf8_is_refused() -> None:
    for data in (b'"\xff"', b'"\xc3"', b'"\xc0\xaf"', b'"\xf5\x80\x80\x80"', b"\x80"):
        assert parse_refusal(data) == "not-utf8"


def test_raw_lone_surrogate_is_refused() -> None:
    assert parse_refusal(b'"\xed\xa0\x80"') == "not-utf8"
    assert parse_refusal(b'"\xed\xb0\x80"') == "not-utf8"


def test_other_encodings_than_utf8_are_refused() -> None:
    for name in ("utf-16", "utf-16-le", "utf-16-be", "utf-32"):
        assert parse_refusal('{"a": 1}'.encode(name)) in {"not-utf8", "not-json"}


def test_byte_order_mark_is_refused() -> None:
    assert parse_refusal(b'\xef\xbb\xbf{"a": 1}') == "not-json"


@pytest.mark.parametrize(
    "data",
    [
        b"1 1",
        b"{} {}",
        b"[]x",
        b"{}\0",
        b"01",
        b"+1",
        b"1_000",
        b"",
        b" ",
        b"-",
        b"[1,]",
        b'{"a": 1,}',
        b"{a: 1}",
        b"'a'",
        b"[1 // one\n]",
        b"True",
        b"nan",
        b"0x10",
        b'"unterminated',
        b'"a\nb"',
        b'"a\0b"',
        rb'"\x41"',
        rb'"\u00zz"',
        rb'"\ud8"',
    ],
)
def test_what_is_not_one_json_document_is_refused(data: bytes) -> None:
    assert parse_refusal(data) == "not-json"


@given(st.binary(max_size=60) | st.text('[]{}",:0123456789-+.eE \\ud8truefalsn', max_size=30).map(str.encode))
def test_any_bytes_are_read_or_refused_as_malformed(data: bytes) -> None:
    with contextlib.suppress(MalformedError):
        parse_json(data, LIMIT)


# Strings


def test_text_up_to_its_limit_in_bytes_is_taken() -> None:
    assert encoding.text(6)("ab€c", "the place") == "ab€c"
    assert encoding.text(0)("", "the place") == ""
    assert encoding.text()("x" * 4096, "the place") == "x" * 4096


@pytest.mark.parametrize(("limit", "value"), [(5, "ab€c"), (2, "€"), (0, "x"), (3, "\U0001f600"), (4096, "x" * 4097)])
def test_text_too_long_in_bytes_is_refused(limit: int, value: str) -> None:
    assert decode_refusal(encoding.text(limit), value) == "too-long"


@pytest.mark.parametrize("value", ["\0", "a\0", "\0b", "a\0b"])
def test_nul_is_refused(value: str) -> None:
    assert decode_refusal(encoding.text(), value) == "nul"
    assert decode_refusal(encoding.text(), json.loads(json.dumps(value))) == "nul"


@pytest.mark.parametrize("escaped", [rb'"\ud800"', rb'"\udfff"', rb'"a\udc00b"', rb'"\udc00\ud800"'])
def test_lone_surrogate_by_escape_is_refused(escaped: bytes) -> None:
    assert decode_refusal(encoding.text(), parse_json(escaped, LIMIT)) == "not-unicode"


def test_surrogate_pair_by_escape_is_one_character() -> None:
    assert encoding.text(4)(parse_json(rb'"\ud83d\ude00"', LIMIT), "the place") == "😀"


def test_lone_surrogate_as_a_field_is_refused() -> None:
    assert decode_refusal(encoding.record({}), parse_json(rb'{"\ud800": 1}', LIMIT)) == "unknown-field"


def test_empty_text_is_refused_where_it_must_not_be() -> None:
    assert decode_refusal(encoding.text(empty=False), "") == "empty"


@pytest.mark.parametrize("value", [None, 1, True, ["a"], {"a": 1}])
def test_what_is_no_string_is_refused(value: object) -> None:
    for decoder in (encoding.text(), encoding.hexadecimal, encoding.digest, encoding.base64(9), encoding.one_of("a")):
        assert decode_refusal(decoder, value) == "wrong-type"


def test_other_choice_is_refused() -> None:
    decoder = encoding.one_of("source", "overlay")
    assert decoder("overlay", "the place") == "overlay"
    for value in ("Source", "source ", "", "sourceoverlay", "\ud800"):
        assert decode_refusal(decoder, value) == "unknown-value"


# Numbers and truth


def test_integer_in_range_is_taken() -> None:
    for number in (0, 1, MAX_INTEGER):
        assert encoding.integer(number, "the place") == number


@pytest.mark.parametrize("value", [True, False])
def test_boolean_for_an_integer_is_refused(*, value: bool) -> None:
    assert decode_refusal(encoding.integer, value) == "wrong-type"


@pytest.mark.parametrize("value", ["1", 1.0, None, [1], {}])
def test_what_is_no_integer_is_refused(value: object) -> None:
    assert decode_refusal(encoding.integer, value) == "wrong-type"


@pytest.mark.parametrize("value", [-1, MAX_INTEGER + 1, 2**64])
def test_integer_out_of_range_is_refused(value: int) -> None:
    assert decode_refusal(encoding.integer, value) == "integer-range"


def test_only_true_and_false_are_booleans() -> None:
    assert encoding.boolean(parse_json(b"true", LIMIT), "the place") is True
    assert encoding.boolean(parse_json(b"false", LIMIT), "the place") is False
    values: tuple[object, ...] = (0, 1, "true", None, [])
    for value in values:
        assert decode_refusal(encoding.boolean, value) == "wrong-type"


# Hex


def test_lower_case_hex_is_taken() -> None:
    assert encoding.hexadecimal("00ff", "the place") == b"\0\xff"
    assert encoding.hexadecimal("", "the place") == b""
    assert encoding.hexadecimal("ab" * 64, "the place") == b"\xab" * 64
    assert encoding.digest("0f" * 32, "the place") == b"\x0f" * 32


@pytest.mark.parametrize(
    "value",
    [
        "AB",
        "aB",
        "a",
        "abc",
        "0x",
        "0x12",
        " ab",
        "ab ",
        "a b ",
        "ab\n",
        "zz",
        "é0",
        "\u0660\u0660",
        "\ud800a",
        "ab" * 65,
    ],
)
def test_hex_in_another_spelling_is_refused(value: str) -> None:
    assert decode_refusal(encoding.hexadecimal, value) == "not-canonical-hex"
    assert decode_refusal(encoding.digest, value) == "not-canonical-hex"


@pytest.mark.parametrize("size", [0, 1, 31, 33, 64])
def test_digest_of_another_length_is_refused(size: int) -> None:
    assert decode_refusal(encoding.digest, "ab" * size) == "wrong-length"


# Base64


@pytest.mark.parametrize(
    ("value", "data"), [("", b""), ("AA==", b"\0"), ("AAA=", b"\0\0"), ("AAAA", b"\0\0\0"), ("+/+/", b"\xfb\xff\xbf")]
)
def test_canonical_base64_is_taken(value: str, data: bytes) -> None:
    assert encoding.base64(100)(value, "the place") == data
    assert to_base64(data) == value


@pytest.mark.parametrize("value", ["AA", "AAA", "A", "A===", "AA=", "AAAA=", "AAAA==", "====", "=", "AA==AA==", "=AAA"])
def test_base64_with_wrong_padding_is_refused(value: str) -> None:
    assert decode_refusal(encoding.base64(100), value) == "not-base64"


@pytest.mark.parametrize(
    "value", ["AA A", "AAAA\n", " AAAA", "AAAA ", "AA\r\nAA==", "A-A_", "-_-_", "AA%3D", "é===", "AA\0A"]
)
def test_loose_base64_is_refused(value: str) -> None:
    assert decode_refusal(encoding.base64(100), value) == "not-base64"


@pytest.mark.parametrize("value", ["AB==", "AAB=", "//==", "///=", "AAAAAf=="])
def test_base64_with_slack_bits_is_refused(value: str) -> None:
    assert decode_refusal(encoding.base64(100), value) == "not-base64"


def test_base64_far_too_long_is_refused_before_it_is_decoded() -> None:
    assert decode_refusal(encoding.base64(30), "!" * 1000) == "too-long"


def test_base64_of_more_bytes_than_its_limit_is_refused() -> None:
    for limit in (0, 1, 2, 3, 4, 30, 31, 32, 33):
        assert encoding.base64(limit)(to_base64(bytes(limit)), "the place") == bytes(limit)
        assert decode_refusal(encoding.base64(limit), to_base64(bytes(limit + 1))) == "too-long"


@given(st.binary(max_size=40))
def test_base64_has_one_spelling(data: bytes) -> None:
    assert encoding.base64(40)(to_base64(data), "the place") == data


# Combinations


def test_optional_takes_null_and_what_its_inner_decoder_takes() -> None:
    decoder = encoding.optional(encoding.integer)
    assert decoder(None, "the place") is None
    assert decoder(0, "the place") == 0
    assert decode_refusal(decoder, "x") == "wrong-type"


def test_sequence_keeps_order_and_refuses_more_than_its_limit() -> None:
    decoder = encoding.sequence(encoding.integer, 3)
    assert decoder([3, 1, 2], "the place") == (3, 1, 2)
    assert decoder([], "the place") == ()
    assert decode_refusal(decoder, [1, 2, 3, 4]) == "too-long"
    for value in ("abc", {"0": 1}, None, 3):
        assert decode_refusal(decoder, value) == "wrong-type"


def test_refusal_names_the_item_and_the_field() -> None:
    decoder = encoding.record({"rows": encoding.sequence(encoding.record({"size": encoding.integer}), 9)})
    with pytest.raises(MalformedError, match=r"root\.rows\[1\]\.size is not an integer"):
        decoder({"rows": [{"size": 1}, {"size": "2"}]}, "root")


RECORD = encoding.record(
    {"name": encoding.text(), "size": encoding.integer}, {"rows": encoding.sequence(encoding.integer, 9)}
)


def test_record_has_exactly_its_fields() -> None:
    assert RECORD({"name": "a", "size": 1}, "the place") == {"name": "a", "size": 1, "rows": ()}
    assert RECORD({"rows": [1], "size": 1, "name": "a"}, "the place") == {"name": "a", "size": 1, "rows": (1,)}


@pytest.mark.parametrize("extra", ["Name", "name ", "", "rows2", "__class__"])
def test_unknown_field_is_refused(extra: str) -> None:
    assert decode_refusal(RECORD, {"name": "a", "size": 1, extra: 1}) == "unknown-field"


@pytest.mark.parametrize("value", [{}, {"name": "a"}, {"size": 1}, {"rows": [1]}])
def test_missing_field_is_refused(value: object) -> None:
    assert decode_refusal(RECORD, value) == "missing-field"


def test_null_is_no_missing_field() -> None:
    assert decode_refusal(RECORD, {"name": None, "size": 1}) == "wrong-type"


def test_empty_list_that_should_be_left_out_is_refused() -> None:
    assert decode_refusal(RECORD, {"name": "a", "size": 1, "rows": []}) == "not-canonical"


@pytest.mark.parametrize("value", [None, [], "x", 1, [["name", "a"]]])
def test_what_is_no_object_is_refused(value: object) -> None:
    assert decode_refusal(RECORD, value) == "wrong-type"
    assert decode_refusal(encoding.tally(frozenset()), value) == "wrong-type"


def test_tally_counts_known_things_above_zero_in_one_order() -> None:
    decoder = encoding.tally(frozenset(("failed", "binary")))
    assert list(decoder({"failed": 1, "binary": 2}, "the place").items()) == [("binary", 2), ("failed", 1)]
    assert decoder({}, "the place") == {}
    assert decode_refusal(decoder, {"other": 1}) == "unknown-field"
    assert decode_refusal(decoder, {"failed": 0}) == "not-canonical"
    assert decode_refusal(decoder, {"failed": True}) == "wrong-type"
    assert decode_refusal(decoder, {"failed": -1}) == "integer-range"


# Canonical JSON


def test_canonical_json_is_sorted_without_spaces_and_in_utf8() -> None:
    value = {"b": [1, {"z": None, "a": True}], "a": "é€😀", "": False, "B": -5}
    assert canonical_json(value) == '{"":false,"B":-5,"a":"é€😀","b":[1,{"a":true,"z":null}]}'.encode()


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        # RFC 8785, section 3.2.2: the string of the example, and its canonical form
        ("\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/", '"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"'),
        # section 3.2.2.2: the short escapes, lower-case hex for other controls, all else as it is
        ("\b\t\n\f\r", '"\\b\\t\\n\\f\\r"'),
        ("\x00\x01\x0b\x1a\x1f", '"\\u0000\\u0001\\u000b\\u001a\\u001f"'),
        ('"\\/', '"\\"\\\\/"'),
        ("\x7f\x80\u2028\u2029\ufeff\uffff", '"\x7f\x80\u2028\u2029\ufeff\uffff"'),
        ("\U0001f600\u05d3\u05bc", '"😀דּ"'),
        ("e\u0301 is not \u00e9", '"e\u0301 is not \u00e9"'),
    ],
)
def test_strings_are_written_as_rfc_8785_has_them(text: str, encoded: str) -> None:
    assert canonical_json(text) == encoded.encode()


def test_canonical_json_refuses_what_has_no_form() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json([float("nan")])
    with pytest.raises(UnicodeEncodeError):
        canonical_json("\ud800")
    with pytest.raises(TypeError):
        canonical_json(b"bytes")


plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_INTEGER, MAX_INTEGER)
    | st.text(st.characters(codec="utf-8"), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abcAB1_", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(plain_values, st.randoms(use_true_random=False))
def test_canonical_json_does_not_depend_on_the_order_of_keys_and_reads_back(value: Any, rng: Any) -> None:
    def shuffled(one: Any) -> Any:
        if isinstance(one, dict):
            pairs = [(key, shuffled(inner)) for key, inner in one.items()]
            rng.shuffle(pairs)
            return dict(pairs)
        return [shuffled(inner) for inner in one] if isinstance(one, list) else one

    encoded = canonical_json(value)
    assert canonical_json(shuffled(value)) == encoded
    assert canonical_json(parse_json(encoded, LIMIT)) == encoded
