"""Paths as text: nothing is lost, nothing collides, nothing leads out of the tree."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from knowingd.source.paths import MAXIMUM_BYTES, path_bytes, path_text, was_cut

NAMES = st.one_of(
    st.binary(min_size=1, max_size=12),
    st.text(min_size=1, max_size=12).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.sampled_from([b".", b"..", b"", b"\\", b"\\x41", b"a\nb", b"\xff", b"\xe2\x80\xae", b"...", b".git"]),
)
PATHS = st.lists(NAMES, min_size=1, max_size=5).map(b"/".join)


@given(PATHS)
def test_a_path_comes_back_from_its_text(raw: bytes) -> None:
    assert path_bytes(path_text(raw)) == raw


@given(PATHS)
def test_a_text_is_valid_visible_and_stays_in_the_tree(raw: bytes) -> None:
    text = path_text(raw)
    text.encode()
    assert not re.search("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", text)
    assert not {"", ".", ".."} & set(text.split("/")) or not raw


@given(st.lists(st.sampled_from([b"a.py", b"src", "é".encode(), b"a b", b"100%.md", b"x-y_z", b"..."]), min_size=1))
def test_an_ordinary_path_is_its_own_text(segments: list[bytes]) -> None:
    raw = b"/".join(segments)
    assert path_text(raw) == raw.decode()


@given(st.binary(min_size=1, max_size=20), st.integers(1000, 9000))
def test_long_paths_fit_and_differ(pattern: bytes, size: int) -> None:
    raw = (pattern * size)[:size]
    text = path_text(raw)
    assert len(text.encode()) <= MAXIMUM_BYTES
    assert path_text(raw + b"y") != text
    assert was_cut(text) or path_bytes(text) == raw


def test_escapes_are_upper_case_bytes() -> None:
    assert path_text(b"a\xff/\n") == "a\\xFF/\\x0A"
    assert path_text(b"../etc/passwd") == "\\x2E\\x2E/etc/passwd"
    assert path_text(b"/etc//x/") == "\\x2Fetc/\\x2Fx\\x2F"
