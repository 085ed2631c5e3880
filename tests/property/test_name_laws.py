import re
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from knowing_protocol.errors import InvalidNameError
from knowing_protocol.paths import (
    CALL,
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
from knowing_protocol.urls import CASE_IGNORING_HOSTS, canonical_url, is_canonical_url, local_name, matches

any_text = st.text(st.characters(), max_size=40)  # surrogates and controls too

# Texts from the pieces of a grammar reach far more of it than arbitrary ones do.
url_pieces = [
    "https://",
    "ssh://",
    "git@",
    "a:b@",
    "h",
    "GitHub.com",
    "www.",
    ":22",
    ":443",
    ":8080",
    ":",
    "/",
    "//",
    ".",
]
url_pieces += [
    "..",
    ".git",
    ".GIT",
    "%2e",
    "%41",
    "%c3%a9",
    "%",
    "é",
    "~",
    "a",
    "B",
    "1",
    "?q",
    "#f",
    "[::1]",
    "[",
    "]",
]
url_pieces += ["local/", "local", "file:", "c:", "\\", " ", "@", "-", "+", "\0", "\ud800", "git+"]
url_like = st.lists(st.sampled_from(url_pieces), max_size=9).map("".join)

path_pieces = [
    "python://",
    "npm://",
    "go://",
    "rust://",
    "unresolved://",
    "a",
    "b",
    "C",
    "python",
    "é",
    ".",
    "..",
    "::",
    ":",
]
path_pieces += [
    "()",
    "(",
    "*",
    "/",
    "#",
    "=",
    "@s",
    "{",
    "|",
    "}",
    "%2E",
    "%2A",
    "%41",
    "%2e",
    "%",
    " ",
    "\0",
    "%E2%80%AE",
]
schemes = st.sampled_from(["python", "java", "csharp", "rust", "go", "npm"])
path_like = st.builds(
    "{}://{}".format, schemes, st.lists(st.sampled_from(path_pieces[5:]), max_size=9).map("".join)
) | st.lists(st.sampled_from(path_pieces), max_size=9).map("".join)

names = st.sampled_from(["a", "b", "()", "*", ".", "%41", "a.b", "::", "é", "\u202e", "<T as Tr<A>>", "="]) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=6
)
elements = names.map(lambda name: name.replace("/", "")).filter(lambda element: element not in ("", ".", ".."))
module_paths = st.lists(elements, min_size=1, max_size=3).map("/".join)


@st.composite
def paths(draw: st.DrawFn, *, most_heads: int = 4) -> Path:
    """A valid path, of every scheme but `unresolved`."""
    scheme = draw(schemes)
    called_by_name = scheme in ("npm", "go")
    modules = module_paths if called_by_name else names
    steps: st.SearchStrategy[list[Step]] = st.lists(names | st.just(CALL), max_size=5)

    def drawn_steps(*, after_module: bool) -> tuple[Step, ...]:
        drawn = draw(steps)
        while after_module and called_by_name and drawn and drawn[0] is CALL:
            del drawn[0]
        return tuple(drawn)

    count = draw(st.integers(1, most_heads))
    if count == 1:
        head = Head(draw(modules))
        path = Path(scheme, (head,), drawn_steps(after_module=True))
    else:
        heads = {Head(draw(modules), drawn_steps(after_module=True)): None for _ in range(count)}
        if len(heads) == 1:
            return Path(scheme, (Head(next(iter(heads)).module),))
        bare = any(not head.steps for head in heads)
        path = Path(scheme, tuple(heads), drawn_steps(after_module=bare))
    if draw(st.booleans()):
        path = Path(scheme, path.heads, (*path.steps, WILDCARD))
    return path


def accepted(function: Callable[[str], object], text: str) -> bool:
    """Whether a function accepts a text; anything but InvalidNameError escapes and fails the test."""
    try:
        function(text)
    except InvalidNameError:
        return False
    return True


@given(any_text | url_like)
def test_a_canonical_url_is_its_own_canonical_url(text: str) -> None:
    if accepted(canonical_url, text):
        url = canonical_url(text)
        assert canonical_url(url) == url
        assert is_canonical_url(url)


@given(any_text | url_like)
def test_a_canonical_url_is_printable_ascii_with_a_host_and_a_path(text: str) -> None:
    if accepted(canonical_url, text):
        assert re.fullmatch(r"[a-z0-9_\[][a-z0-9._:\[\]-]*(/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)+", canonical_url(text))


@given(any_text | url_like, any_text | url_like)
def test_hostile_texts_raise_nothing_but_invalid_name(text: str, other: str) -> None:
    for function in (canonical_url, local_name, parse_path):
        accepted(function, text)
    accepted(lambda pattern: matches(pattern, other), text)
    local_last_segment(text)


segment = st.text("abcXYZ019-_", min_size=1, max_size=5)


@given(
    st.sampled_from(["github.com", "git.example.org", "gerrit"]),
    st.lists(segment, min_size=1, max_size=3).map("/".join),
    st.text("abc:%40", max_size=6),
)
def test_the_way_to_reach_a_repository_is_not_part_of_its_name(host: str, path: str, user: str) -> None:
    spellings = [
        f"https://{host}/{path}",
        f"https://{user}@{host.upper()}:443/{path}.git",
        f"http://{host}:80//{path}/?a#b",
        f"ssh://git@{host}.:22/{path}.git/",
        f"git+ssh://git@{host}/./{path}",
        f"git@{host}:{path}.git",
        f"git@{host}:/{path}",
        f"{host}/{path}",
    ]
    expected = f"{host}/{path.lower() if host in CASE_IGNORING_HOSTS else path}"
    assert {canonical_url(spelling) for spelling in spellings} == {expected}


@given(any_text, any_text)
def test_local_names_are_canonical_and_differ_when_their_segments_do(name: str, other: str) -> None:
    def segments(text: str) -> list[str]:
        return [part for part in text.split("/") if part not in ("", ".")]

    if accepted(local_name, name):
        assert canonical_url(local_name(name)) == local_name(name)
        if accepted(local_name, other):
            assert (local_name(name) == local_name(other)) == (segments(name) == segments(other))


@given(st.text("ab*?/", max_size=8), st.text("ab/*", max_size=10))
def test_a_glob_matches_what_the_equal_regular_expression_matches(pattern: str, url: str) -> None:
    expression = "".join({"*": ".*", "?": "."}.get(character, re.escape(character)) for character in pattern)
    assert matches(pattern, url) == (re.fullmatch(expression, url, re.DOTALL) is not None)


@given(any_text | path_like)
def test_formatting_what_was_parsed_gives_the_same_text(text: str) -> None:
    if is_path(text):
        assert format_path(parse_path(text)) == text


@given(paths())
def test_parsing_what_was_formatted_gives_the_same_path(path: Path) -> None:
    assert parse_path(format_path(path)) == path


@given(paths(), paths())
def test_two_paths_are_equal_exactly_if_their_spellings_are(path: Path, other: Path) -> None:
    assert (format_path(path) == format_path(other)) == (path == other)


@given(paths())
def test_a_spelling_shows_no_invisible_characters(path: Path) -> None:
    assert not re.search("[\x00-\x20\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]", format_path(path))


@given(paths())
def test_every_alternative_is_a_path_with_one_head(path: Path) -> None:
    expanded = alternatives(path)
    assert len(expanded) == len(path.heads)
    for alternative in expanded:
        assert len(alternative.heads) == 1
        assert parse_path(format_path(alternative)) == alternative


@given(paths(most_heads=1))
def test_a_prefix_and_the_steps_it_left_are_the_path_again(path: Path) -> None:
    prefixes = plain_prefixes(path)
    assert [consumed for _, consumed in prefixes] == list(range(len(prefixes) - 1, -1, -1))
    for prefix, consumed in prefixes:
        assert append(prefix, path.steps[consumed:]) == path
        assert CALL not in parse_path(prefix).steps


@given(paths(), names)
def test_the_key_of_calls_and_wildcards_belongs_to_them_alone(path: Path, name: str) -> None:
    ends = {alternative.steps[-1] if alternative.steps else None for alternative in alternatives(path)}
    keys = last_segments(path)
    assert "()" not in keys
    assert ("*" in keys) == (not ends.isdisjoint({CALL, WILDCARD}))
    assert local_last_segment(name) not in ("()", "*")


@given(st.lists(st.text("abc_", min_size=1, max_size=3), min_size=1, max_size=4))
def test_a_local_name_and_a_path_to_it_have_one_key(parts: list[str]) -> None:
    assert last_segments(append("python://lib", parts)) == {local_last_segment(".".join(parts))}


@given(any_text)
def test_the_key_of_a_local_name_is_its_end(name: str) -> None:
    key = local_last_segment(name)
    assert name.endswith({"%28%29": ("()", key), "%2A": ("*", key)}.get(key, key))
