"""Ignore files: what git decides, in bounded time."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from source.making import ENVIRONMENT, Repository

from knowingd.source import SourceError
from knowingd.source.ignore import IgnoreFile, IgnoreRules

PIECES = [
    *("*", "**", "***", "?", "/", "//", "a", "b", "ab", "[ab]", "[!a]", "[^b]", "[a-", "[]a]", "[[:alpha:]]", "\\"),
    *(
        "[[:nope:]]",
        "[[:",
        "[b-a]",
        "[\\]a]",
        "\\*",
        "\\ ",
        " ",
        ".",
        "!",
        "#",
        "é",
        "[é]",
        "\t",
        "-",
        "]",
        "[a-b-]",
        "[/]",
    ),
    *("**/", "/**", "/**/", "a/**/b", "*/", "\r", "\\/", "[!a-b]", "[a\\-b]"),
]
LINES = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join)
FILES = st.lists(LINES, min_size=1, max_size=5).map("\n".join)
SEGMENTS = st.lists(
    st.sampled_from(["a", "b", "ab", "ba", "*", "é", "]", "-", " ", "\\", "!", "#", ".", "x", "c\n", "["]),
    min_size=1,
    max_size=3,
).map("".join)
PATHS = st.lists(SEGMENTS.filter(lambda name: name not in (".", "..")), min_size=1, max_size=5).map("/".join)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return Repository(tmp_path_factory.mktemp("ignore"))


def git_ignores(repository: Repository, files: dict[str, str], paths: list[str]) -> list[bool]:
    """What git says, with the ignore files written to disk and taken away again."""
    written: list[Path] = []
    for directory, content in files.items():
        file = repository.path / directory / ".gitignore"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode())
        written.append(file)
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin", "-z", "-v", "-n"],
        cwd=repository.path,
        env=ENVIRONMENT,
        input="".join(f"{path}\0" for path in paths).encode(),
        capture_output=True,
        check=False,
    )
    for file in written:
        file.unlink()
    assert done.returncode in (0, 1), done.stderr
    fields = done.stdout.split(b"\0")[:-1]
    assert len(fields) == 4 * len(paths)
    return [bool(pattern) and not pattern.startswith(b"!") for pattern in fields[2::4]]


def ours(files: dict[str, str], paths: list[str]) -> list[bool]:
    rules = IgnoreRules({where.encode(): IgnoreFile(content.encode(), "x") for where, content in files.items()})
    return [rules.decides(path.encode()) is True for path in paths]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILES, st.lists(PATHS, min_size=1, max_size=25))
@example("a/**/b", ["a/b", "a/x/b", "a/x/y/b", "ab"])
@example("a**/b", ["a/b", "ax/b", "ax/y/b", "a/x/y/b"])
@example("*a*b*a", ["aba", "abab", "xaxbxa", "ab/a"])
@example("**/a*b/**/c", ["ax/ab/c", "ab/x/c", "q/axb/c"])
@example("/*\n!/a\n/a/*\n!/a/b", ["a/b", "a/c", "b", "a/b/c"])
@example("a/\n!a/b", ["a/b", "a", "x/a/b"])
def test_decisions_are_those_of_git(repository: Repository, content: str, paths: list[str]) -> None:
    assert ours({"": content}, paths) == git_ignores(repository, {"": content}, paths)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(FILES, FILES, st.lists(PATHS.map("dir/".__add__), min_size=1, max_size=25))
@example("dir/*", "!a", ["dir/a", "dir/b"])
@example("dir", "!a", ["dir/a"])
def test_the_nearer_of_two_files_decides_as_in_git(
    repository: Repository, outer: str, inner: str, paths: list[str]
) -> None:
    files = {"": outer, "dir": inner}
    assert ours(files, paths) == git_ignores(repository, files, paths)


def test_what_is_in_a_kept_directory_counts_as_kept() -> None:
    rules = IgnoreRules({b"": IgnoreFile(b"!vendor/\nvendor/x.py\n", "x")})
    assert rules.decides(b"vendor/a/b.py") is False
    assert rules.decides(b"vendor/x.py") is True
    assert rules.decides(b"other.py") is None


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (b"*a" * 60 + b"b", b"a" * 4000),
        (b"**/a/" * 40 + b"b", b"a/" * 2000 + b"c"),
        (b"**/*a*a*a*a*b/" * 10 + b"c", (b"a" * 40 + b"/") * 90 + b"d"),
        (b"/**/" + b"?*" * 100 + b"z", b"a" * 4000),
    ],
)
def test_a_hostile_pattern_takes_no_time(pattern: bytes, path: bytes) -> None:
    started = time.process_time()
    assert IgnoreFile(pattern, "x").decides(path, is_directory=False) is None
    assert time.process_time() - started < 2


@pytest.mark.parametrize("content", [b"x" * (257 << 10), b"a\n" * 2001])
def test_an_excessive_ignore_file_is_refused_by_name(content: bytes) -> None:
    with pytest.raises(SourceError, match=r"dir/\.knowingignore has more than") as caught:
        IgnoreFile(content, "dir/.knowingignore")
    assert caught.value.hint
