import builtins
import pickle
import sys

import pytest
from knowing_protocol.errors import InvalidNameError
from knowing_protocol.paths import (
    CALL,
    MAXIMUM_BYTES,
    WILDCARD,
    Head,
    Path,
    Step,
    alternatives,
    append,
    format_path,
    is_path,
    last_segments,
    local_last_segment,
    parse_path,
    plain_prefixes,
)
from knowing_protocol.standard_library import (
    BUILTIN_MEMBERS,
    PYTHON_MODULES,
    in_standard_library,
    is_builtin_instance_member,
)


def one(scheme: str, module: str, *steps: Step) -> Path:
    return Path(scheme, (Head(module),), steps)


WELL_FORMED = {
    "python://flask": one("python", "flask"),
    "python://flask.app.Flask().route": one("python", "flask", "app", "Flask", CALL, "route"),
    "python://lib.make_client().send": one("python", "lib", "make_client", CALL, "send"),
    "python://f()()": one("python", "f", CALL, CALL),
    "python://x.__iter__().__next__()": one("python", "x", "__iter__", CALL, "__next__", CALL),
    "python://x.*": one("python", "x", WILDCARD),
    "python://x.%2A": one("python", "x", "*"),
    "python://x.%28%29": one("python", "x", "()"),
    "python://x.naïve.变量": one("python", "x", "naïve", "变量"),
    "python://x.a%20b%25%0A%C2%85%E2%80%AE%D8%9C": one("python", "x", "a b%\n\x85\u202e\u061c"),
    "java://p.Outer.Inner.m": one("java", "p", "Outer", "Inner", "m"),
    "csharp://Ns.Foo`1.M": one("csharp", "Ns", "Foo`1", "M"),
    "rust://lib::de::T::m": one("rust", "lib", "de", "T", "m"),
    "rust://lib::T::new()::m": one("rust", "lib", "T", "new", CALL, "m"),
    "rust://lib::<T as Tr<A>>::m!".replace(" ", "%20"): one("rust", "lib", "<T as Tr<A>>", "m!"),
    "rust://a::*": one("rust", "a", WILDCARD),
    "go://fmt.Println": one("go", "fmt", "Println"),
    "go://net/http.Client.Do": one("go", "net/http", "Client", "Do"),
    "go://gopkg.in/yaml%2Ev3.Unmarshal": one("go", "gopkg.in/yaml.v3", "Unmarshal"),
    "go://github.com/a/b": one("go", "github.com/a/b"),
    "go://example%2Ecom": one("go", "example.com"),
    "go://p.*": one("go", "p", WILDCARD),
    "go://p.F().G": one("go", "p", "F", CALL, "G"),
    "npm://pkg": one("npm", "pkg"),
    "npm://pkg/sub#name.member": one("npm", "pkg/sub", "name", "member"),
    "npm://@scope/pkg#default": one("npm", "@scope/pkg", "default"),
    "npm://pkg/sub#=()": one("npm", "pkg/sub", "=", CALL),
    "npm://lodash.get/a.js#=": one("npm", "lodash.get/a.js", "="),
    "npm://node:fs#readFile": one("npm", "node:fs", "readFile"),
    "npm://x#*": one("npm", "x", WILDCARD),
    "npm://x#a().b": one("npm", "x", "a", CALL, "b"),
    "npm://a%23b%2A#c": one("npm", "a#b*", "c"),
    "unresolved://python/get": one("unresolved", "python", "get"),
    "unresolved://go/a%2Fb": one("unresolved", "go", "a/b"),
    "python://{a.B|c.D()}().m": Path("python", (Head("a", ("B",)), Head("c", ("D", CALL))), (CALL, "m")),
    "python://{a|b}": Path("python", (Head("a"), Head("b"))),
    "python://{a.*|b.*}": Path("python", (Head("a", (WILDCARD,)), Head("b", (WILDCARD,)))),
    "python://{a|b}.*": Path("python", (Head("a"), Head("b")), (WILDCARD,)),
    "python://{a|b}().c": Path("python", (Head("a"), Head("b")), (CALL, "c")),
    "rust://{a::B|c}::m": Path("rust", (Head("a", ("B",)), Head("c")), ("m",)),
    "npm://{a|b#c}.m": Path("npm", (Head("a"), Head("b", ("c",))), ("m",)),
    "npm://{a#b|c#d}().m": Path("npm", (Head("a", ("b",)), Head("c", ("d",))), (CALL, "m")),
    "go://{x.y/p|q}.F": Path("go", (Head("x.y/p"), Head("q")), ("F",)),
}


@pytest.mark.parametrize(("text", "path"), WELL_FORMED.items(), ids=WELL_FORMED.keys())
def test_a_path_and_its_spelling_are_inverse(text: str, path: Path) -> None:
    assert parse_path(text) == path
    assert format_path(path) == text
    assert is_path(text)


def test_the_marks_survive_the_way_to_another_process() -> None:
    path = parse_path("python://a().*")
    assert pickle.loads(pickle.dumps(path)) == path
    assert pickle.loads(pickle.dumps(path)).steps[0] is CALL


MALFORMED = {
    "empty": "",
    "no scheme": "flask.app",
    "unknown scheme": "ruby://a",
    "scheme in capitals": "Python://a",
    "no module": "python://",
    "empty name": "python://a..b",
    "empty name at the end": "python://a.",
    "empty name at the beginning": "python://.a",
    "call first": "python://().a",
    "name directly after a call": "python://a()b",
    "parenthesis not closed": "python://a(",
    "argument in a call": "python://a(b)",
    "slash in a name": "python://a/b",
    "hash in a name": "python://a#b",
    "colon in a name": "python://a:b",
    "space in a name": "python://a b",
    "NUL": "python://a\0",
    "escaped NUL": "python://a%00",
    "lone surrogate": "python://\ud800",
    "escaped lone surrogate": "python://%ED%A0%80",
    "control character": "python://a\n",
    "C1 control": "python://a\x85",
    "bidi override": "python://a\u202e",
    "bidi isolate": "python://a\u2066",
    "left-to-right mark": "python://a\u200e",
    "Arabic letter mark": "python://a\u061c",
    "line separator": "python://a\u2028",
    "needless escape": "python://%41",
    "needless escape of a letter beyond ASCII": "python://%C3%A9",
    "needless escape in a name": "python://a.%62",
    "lower-case escape": "python://a%2e",
    "truncated escape": "python://a%2",
    "percent alone": "python://a%",
    "escape that is not UTF-8": "python://a%FF",
    "truncated UTF-8 in an escape": "python://a%E2%80",
    "overlong UTF-8": "python://a%C0%AE",
    "wildcard first": "python://*",
    "wildcard in the middle": "python://a.*.b",
    "wildcard called": "python://a.*()",
    "wildcard inside a name": "python://a.b*",
    "wildcard without a separator": "python://a*",
    "dot in rust": "rust://a.b",
    "one colon in rust": "rust://a:b",
    "three colons in rust": "rust://a:::b",
    "call with a dot in rust": "rust://a().b",
    "colons in python": "python://a::b",
    "call of a go module": "go://a()",
    "empty element in go": "go://a//b.F",
    "slash first in go": "go:///a.F",
    "slash last in go": "go://a/.F",
    "relative go module": "go://../a.F",
    "dot as a go element": "go://./a.F",
    "escaped dots as the last go element": "go://a/%2E%2E",
    "needless escape of a dot in go": "go://a%2Eb/c.F",
    "escaped slash in go": "go://a%2Fb.F",
    "hash in go": "go://a#F",
    "call of an npm module": "npm://pkg()",
    "empty name in npm": "npm://pkg#",
    "empty name before a call in npm": "npm://pkg#()",
    "two hashes": "npm://pkg#a#b",
    "relative npm module": "npm://./a#b",
    "upwards npm module": "npm://a/../b#c",
    "slash first in npm": "npm:///a#b",
    "slash last in npm": "npm://a/#b",
    "escaped dot in npm": "npm://a%2Eb#c",
    "wildcard as an npm element": "npm://*#a",
    "name after a wildcard in npm": "npm://a#*.b",
    "unresolved without a language": "unresolved://get",
    "unresolved of an unknown language": "unresolved://ruby/get",
    "unresolved of itself": "unresolved://unresolved/get",
    "unresolved without a name": "unresolved://python/",
    "unresolved with two names": "unresolved://python/a/b",
    "unresolved with a dot": "unresolved://python/a.b",
    "unresolved with a call": "unresolved://python/a()",
    "unresolved wildcard": "unresolved://python/*",
    "unresolved candidates": "unresolved://{python/a|go/b}",
    "one candidate": "python://{a}",
    "no candidate": "python://{}",
    "empty candidate": "python://{a|}",
    "nine candidates": "python://{a|b|c|d|e|f|g|h|i}",
    "duplicate candidates": "python://{a|b|a}",
    "nested candidates": "python://{a|{b|c}}",
    "candidates not closed": "python://{a|b",
    "candidates later": "python://a.{b|c}",
    "candidates twice": "python://{a|b}{c|d}",
    "bar without a brace": "python://a|b",
    "name directly after a brace": "python://{a|b}c",
    "name after a candidate's wildcard": "python://{a.*|b}.c",
    "bare npm module called after a brace": "npm://{a|b#c}().d",
    "bare go module called after a brace": "go://{a|b}().d",
    "hash after a brace": "npm://{a|b}#c",
    "needless escape in a candidate": "python://{%61|b}",
    "relative candidate": "npm://{..|b}",
    "too many steps": "python://a" + ".b" * 65,
    "too many calls": "python://a" + "()" * 65,
    "too many steps in candidates": "python://{a" + ".b" * 40 + "|c}" + ".d" * 25,
    "too long": "python://" + "a" * MAXIMUM_BYTES,
    "too long in UTF-8": "python://" + "é" * 2048,
}


@pytest.mark.parametrize("text", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_path_is_refused(text: str) -> None:
    with pytest.raises(InvalidNameError) as caught:
        parse_path(text)
    assert caught.value.message.isascii()
    assert caught.value.message.isprintable()
    assert not is_path(text)


NOT_A_PATH = {
    "no head": Path("python", ()),
    "unknown scheme": one("ruby", "a"),
    "empty module": one("python", ""),
    "empty name": one("python", "a", ""),
    "NUL": one("python", "a\0"),
    "lone surrogate": one("python", "a", "\ud800"),
    "steps in the only head": Path("python", (Head("a", ("b",)),), ("c",)),
    "wildcard in the middle": one("python", "a", WILDCARD, "b"),
    "relative module": one("go", "a/.."),
    "empty element": one("npm", "a//b"),
    "called module": one("npm", "a", CALL),
    "call in unresolved": one("unresolved", "python", CALL),
    "nothing in unresolved": one("unresolved", "python"),
    "duplicate heads": Path("python", (Head("a"), Head("a"))),
    "nine heads": Path("python", tuple(Head(letter) for letter in "abcdefghi")),
    "wildcard in a head": Path("python", (Head("a", (WILDCARD,)), Head("b")), ("c",)),
    "too many steps": one("python", "a", *("b",) * 65),
    "too long": one("python", "é" * 2048),
}


@pytest.mark.parametrize("path", NOT_A_PATH.values(), ids=NOT_A_PATH.keys())
def test_parts_that_form_no_path_are_not_formatted(path: Path) -> None:
    with pytest.raises(InvalidNameError):
        format_path(path)


def test_the_limits_themselves_are_allowed() -> None:
    assert len(parse_path("python://a" + ".b" * 64).steps) == 64
    assert len(parse_path("python://{a|b|c|d|e|f|g|h}").heads) == 8
    assert is_path("python://" + "a" * (MAXIMUM_BYTES - len("python://")))


def test_prefixes_end_before_the_first_call_and_are_longest_first() -> None:
    assert plain_prefixes(parse_path("python://a.b.C().m")) == [
        ("python://a.b.C", 2),
        ("python://a.b", 1),
        ("python://a", 0),
    ]
    assert plain_prefixes(parse_path("npm://p/s#a.b.*")) == [("npm://p/s#a.b", 2), ("npm://p/s#a", 1), ("npm://p/s", 0)]
    assert plain_prefixes(parse_path("go://x.y/z%2Ev1.F")) == [("go://x.y/z%2Ev1.F", 1), ("go://x.y/z%2Ev1", 0)]
    assert plain_prefixes(parse_path("rust://a::B()")) == [("rust://a::B", 1), ("rust://a", 0)]
    assert plain_prefixes(parse_path("python://a.%2A")) == [("python://a.%2A", 1), ("python://a", 0)]
    assert plain_prefixes(parse_path("unresolved://python/get")) == []
    with pytest.raises(InvalidNameError):
        plain_prefixes(parse_path("python://{a|b}"))


def test_alternatives_are_the_candidates_in_source_order() -> None:
    texts = [format_path(path) for path in alternatives(parse_path("python://{c.D()|a.B}().m"))]
    assert texts == ["python://c.D()().m", "python://a.B().m"]
    assert [format_path(path) for path in alternatives(parse_path("npm://{a|b#c}.m"))] == ["npm://a#m", "npm://b#c.m"]
    assert alternatives(parse_path("go://a.F")) == (parse_path("go://a.F"),)


def test_steps_are_appended_at_the_end() -> None:
    assert format_path(append("python://flask.Flask", (CALL, "route"))) == "python://flask.Flask().route"
    assert format_path(append(parse_path("npm://{a|b}"), ["m", WILDCARD])) == "npm://{a|b}.m.*"
    assert format_path(append("npm://pkg", ["a.b"])) == "npm://pkg#a%2Eb"
    for text, steps in (("python://a.*", ["b"]), ("npm://a", [CALL]), ("unresolved://python/a", ["b"]), ("a", ["b"])):
        with pytest.raises(InvalidNameError):
            append(text, steps)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python://a.b.C().m", {"m"}),
        ("python://flask", {"flask"}),
        ("python://a%2Fb", {"a/b"}),
        ("python://a.C()", {"*"}),
        ("python://a.*", {"*"}),
        ("python://a.%2A", {"%2A"}),
        ("python://a.%28%29", {"%28%29"}),
        ("python://a.x%2Ey", {"x.y"}),
        ("python://{a.B|c.D()|e.*}", {"B", "*"}),
        ("python://{a.B|c.D}().m", {"m"}),
        ("npm://@scope/pkg", {"pkg"}),
        ("npm://a/%2A", {"%2A"}),
        ("go://gopkg.in/yaml%2Ev3", {"yaml.v3"}),
        ("rust://serde::de", {"de"}),
        ("unresolved://python/get", {"get"}),
    ],
)
def test_the_last_segment_of_a_path_is_its_key(text: str, expected: set[str]) -> None:
    assert last_segments(parse_path(text)) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("C.m", "m"),
        ("f", "f"),
        ("f.<locals>.g", "g"),
        ("f.<locals>", "<locals>"),
        ("<T as a.Tr<A.B>>.m", "m"),
        ("<T as a.Tr>", "<T as a.Tr>"),
        ("x.<Fn(A) -> a.B>", "<Fn(A) -> a.B>"),
        ("Foo`1.M", "M"),
        ("m!", "m!"),
        ("make().k", "k"),
        ("make(a.b)", "make(a.b)"),
        ("operator<", "operator<"),
        ("V.operator<", "operator<"),
        ("V.operator->", "operator->"),
        ("V.operator()", "operator()"),
        ("a.(b.c>", "c>"),
        ("a.b)", "b)"),
        ("C.*", "%2A"),
        ("*", "%2A"),
        ("C.()", "%28%29"),
        ("a.", "a."),
        ("", ""),
    ],
)
def test_the_last_segment_of_a_local_name_is_its_key(name: str, expected: str) -> None:
    assert local_last_segment(name) == expected


@pytest.mark.parametrize(
    "text",
    [
        "python://os.path.join",
        "python://__future__.annotations",
        "python://builtins.str().join",
        "python://asynchat.async_chat",
        "python://distutils",
        "python://annotationlib.Format",
        "python://{tomllib|json}.loads",
        "go://fmt.Println",
        "go://net/http.Client",
        "rust://std::vec::Vec",
        "rust://proc_macro::*",
        "java://java.util.List().add",
        "java://java.util.*",
        "java://javax.crypto.Cipher.getInstance()",
        "java://javax.xml.parsers.SAXParser",
        "java://javax.annotation.processing.Processor",
        "npm://node:test#describe",
        "npm://fs/promises#readFile",
        "npm://fs#=",
    ],
)
def test_these_are_in_the_standard_library(text: str) -> None:
    assert in_standard_library(parse_path(text))


@pytest.mark.parametrize(
    "text",
    [
        "python://flask.Flask",
        "python://tests",
        "python://{tomllib|tomli}.loads",
        "go://github.com/a/b.F",
        "go://gopkg%2Ein",
        "rust://serde::de",
        "java://javax.inject.Inject",
        "java://javax.annotation.Nullable",
        "java://javax.xml.bind.JAXB",
        "java://javax.security.auth.message.AuthException",
        "java://javax.*",
        "java://javax",
        "npm://test#it",
        "npm://fs/extra#a",
        "npm://@types/node#a",
        "csharp://System.String",
        "unresolved://python/get",
    ],
)
def test_these_are_not_in_the_standard_library(text: str) -> None:
    assert not in_standard_library(parse_path(text))


def test_the_python_table_knows_every_module_of_the_interpreter_that_runs_the_tests() -> None:
    if sys.version_info < (3, 15):  # the table ends with 3.14
        assert sys.stdlib_module_names <= PYTHON_MODULES


def test_a_builtin_type_makes_instances_of_itself() -> None:
    arguments: dict[str, tuple[object, ...]] = {"range": (1,), "slice": (1,), "memoryview": (b"",)}
    for name in BUILTIN_MEMBERS:
        builtin = getattr(builtins, name)
        assert type(builtin(*arguments.get(name, ()))) is builtin


@pytest.mark.parametrize("text", ["python://builtins.str().join", "python://builtins.dict().get"])
def test_a_member_of_a_builtin_instance_is_one(text: str) -> None:
    assert is_builtin_instance_member(parse_path(text))


@pytest.mark.parametrize(
    "text",
    [
        "python://builtins.str.join",
        "python://builtins.str()",
        "python://builtins.str().*",
        "python://builtins.str().join()",
        "python://builtins.type().x",
        "python://builtins.super().x",
        "python://builtins.str().a.b",
        "python://str().join",
        "python://{builtins.str|builtins.bytes}().join",
        "java://builtins.str().join",
    ],
)
def test_what_is_not_exactly_a_member_of_a_builtin_instance_is_none(text: str) -> None:
    assert not is_builtin_instance_member(parse_path(text))
