"""Call places and columns, the way both sides must agree on them."""

from hypothesis import given
from hypothesis import strategies as st

from quality.places import Columns, calls, imports


def names(source: str) -> list[tuple[int, int, str, str | None]]:
    return sorted((place.line, place.col, place.name, place.root) for place in calls(source.encode()).values())


def test_a_place_is_the_identifier_that_is_called() -> None:
    assert names("a.b.get(f(1))\n(g)(2)\nx[0]()\nh()()\ny().z()\n") == [
        (1, 4, "get", "a"),
        (1, 8, "f", None),
        (2, 1, "g", None),
        (4, 0, "h", None),
        (5, 0, "y", None),
        (5, 4, "z", ""),
    ]


def test_the_class_body_is_told_from_its_methods() -> None:
    source = b"class A(base()):\n  x = one()\n  @two()\n  def m(self, y=three()):\n    four()\n  z = lambda: five()\n"
    found = {place.name: place.in_class_body for place in calls(source).values()}
    assert found == {"base": False, "one": True, "two": True, "three": True, "four": False, "five": False}


def test_decorators_count_only_where_they_are_called() -> None:
    assert [place[2] for place in names("@d\n@e.f(1)\ndef g(): pass\n")] == ["f"]


def test_calls_in_f_strings_count() -> None:
    assert names('f"é{a(1)}"\n') == [(1, 5, "a", None)]


def test_columns_of_the_oracle_become_bytes() -> None:
    source = "x = '😀é'; f()\r\ny()\rz()\n".encode()
    columns = Columns(source)
    line = "x = '😀é'; f()"
    units = len(line[: line.index("f(")].encode("utf-16-le")) // 2
    assert columns.offset(0, units) == source.index(b"f(")
    assert columns.offset(1, 0) == source.index(b"y(")
    assert columns.offset(2, 0) == source.index(b"z(")
    assert columns.offset(9, 0) is None
    assert columns.offset(0, 99) is None


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=60), st.data())
def test_every_position_of_a_text_has_its_byte_offset(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    before = text[:at].replace("\r\n", "\n").replace("\r", "\n")
    if text[at - 1 : at + 1] == "\r\n":
        return  # between the two halves of one line end there is no position
    line = before.count("\n")
    column = len(before.rsplit("\n", 1)[-1].encode("utf-16-le")) // 2
    assert Columns(text.encode()).offset(line, column) == len(text[:at].encode())


def test_imports_bind_names_and_aliases() -> None:
    found = imports(b"import a.b\nimport c.d as e\ndef f():\n    from g import h as i, j\n    from k import *\n")
    assert found.names == {"a", "e", "i", "j"}
    assert found.aliases == {("d", "e"), ("h", "i")}
    assert found.star
    assert not imports(b"import a").star
