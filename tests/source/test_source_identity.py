"""What repositories are called, and where they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from knowing_protocol.errors import InvalidNameError
from knowing_protocol.urls import is_canonical_url
from source.making import Repository

from knowingd.errors import KnowingError, NotFoundError, UsageError
from knowingd.source import SourceError, list_repositories, locate, repository_url
from knowingd.source.errors import printable


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "My App")
    made.write("a.py")
    made.commit()
    return made


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://github.com/Org/Repo.git", "github.com/org/repo"),
        ("git@github.com:org/repo", "github.com/org/repo"),
        ("https://user:secret@git.example.org/x/y.git", "git.example.org/x/y"),
        ("ssh://git@host.example:2222/x", "host.example:2222/x"),
    ],
)
def test_the_remote_gives_the_name(repository: Repository, url: str, name: str) -> None:
    repository.git("remote", "add", "other", "https://example.org/other")
    repository.git("remote", "add", "origin", url)
    assert repository_url(repository.path) == name
    assert repository_url(repository.path / ".git") == name


def test_the_only_remote_serves_as_origin_and_several_do_not(repository: Repository) -> None:
    repository.git("remote", "add", "up", "https://example.org/up")
    assert repository_url(repository.path) == "example.org/up"
    repository.git("remote", "add", "down", "https://example.org/down")
    assert repository_url(repository.path).startswith("local/")


@pytest.mark.parametrize("url", ["/home/me/x", "../x", "file:///home/me/x", "~/x", "C:\\x"])
def test_a_remote_on_this_machine_gives_no_name(repository: Repository, url: str) -> None:
    repository.git("config", "remote.origin.url", url)
    name = repository_url(repository.path)
    assert name.startswith("local/My")
    assert "home" not in name


def test_a_remote_that_is_no_url_is_explained_without_being_quoted(repository: Repository) -> None:
    repository.git("config", "remote.origin.url", "weird://user:hunter2@host/x")
    with pytest.raises(InvalidNameError) as caught:
        repository_url(repository.path)
    assert "hunter2" not in caught.value.message + caught.value.hint
    assert "--url" in caught.value.hint


def test_a_local_name_is_stable_and_holds_no_path(repository: Repository, tmp_path: Path) -> None:
    first = repository.git("rev-parse", "HEAD")
    name = repository_url(repository.path)
    assert name == f"local/My-App-{first[:12]}"
    assert is_canonical_url(name)
    repository.write("b.py")
    repository.commit()
    repository.git("checkout", "-q", "--orphan", "unrelated")
    repository.git("commit", "-q", "-m", "unrelated")
    repository.git("checkout", "-q", "-f", "main")
    repository.git("merge", "-q", "--allow-unrelated-histories", "-s", "ours", "unrelated")
    repository.git("worktree", "add", "-q", str(tmp_path / "elsewhere"))
    repository.git("clone", "-q", "--bare", ".", str(tmp_path / "copies" / "My App.git"))
    for path in (repository.path, tmp_path / "elsewhere", tmp_path / "copies" / "My App.git"):
        assert repository_url(path) == name


def test_replacements_and_grafts_do_not_change_the_name(repository: Repository) -> None:
    first = repository.git("rev-parse", "HEAD")
    name = repository_url(repository.path)
    repository.write("b.py")
    second = repository.commit()
    repository.git("replace", "--graft", second)
    (repository.path / ".git" / "info" / "grafts").write_text(f"{second}\n")
    assert repository_url(repository.path) == name == f"local/My-App-{first[:12]}"


def test_what_the_user_gives_wins(repository: Repository) -> None:
    repository.git("remote", "add", "origin", "https://example.org/x")
    assert repository_url(repository.path, given="shop") == "local/shop"
    assert repository_url(repository.path, given="https://GitHub.com/A/B.git") == "github.com/a/b"
    assert repository_url(repository.path, given="local/shop") == "local/shop"
    with pytest.raises(InvalidNameError):
        repository_url(repository.path, given="/home/me")


def test_a_plain_directory_is_called_like_itself(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    assert repository_url(tmp_path / "notes") == "local/notes"


@pytest.mark.parametrize("name", ["...", "a\nb", "\udcff", "é", " ", "a%2Fb", "x.git"])
def test_any_directory_name_gives_a_canonical_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    assert is_canonical_url(repository_url(tmp_path / name))


def test_a_shallow_or_empty_repository_without_a_remote_needs_a_name(repository: Repository, tmp_path: Path) -> None:
    repository.write("b.py")
    repository.commit()
    repository.git("clone", "-q", "--depth=1", f"file://{repository.path}", str(tmp_path / "shallow"))
    Repository(tmp_path / "empty")
    for path in ("shallow", "empty"):
        with pytest.raises(SourceError) as caught:
            repository_url(tmp_path / path)
        assert caught.value.code == "no-name"
        assert "--url" in caught.value.hint


# Lists of repositories


def test_a_list_has_paths_and_urls_and_says_nothing_twice(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "with space").mkdir()
    file = tmp_path / "list"
    file.write_bytes(
        b"\xef\xbb\xbf# ours\n\n  one  \r\nhttps://github.com/a/b#frag\ngit@host:x/y\none\nwith space\n   # more\n"
        b"github.com/c/d\nfile:///srv/x\ngithub.com:e/f\n" + str(tmp_path).encode()
    )
    found = list_repositories(file)
    assert [location.path for location in found if location.path] == [
        tmp_path / "one",
        tmp_path / "with space",
        tmp_path,
    ]
    assert [location.url for location in found if location.url] == [
        *("https://github.com/a/b#frag", "git@host:x/y", "https://github.com/c/d", "file:///srv/x", "github.com:e/f"),
    ]


def test_every_wrong_line_is_named_by_its_number(tmp_path: Path) -> None:
    file = tmp_path / "list"
    file.write_bytes(b"# fine\nnowhere\n\xff\next::sh -c evil\nweird://x/y\nlist\n")
    with pytest.raises(UsageError) as caught:
        list_repositories(file)
    for number in (2, 3, 4, 5, 6):
        assert f"line {number}:" in caught.value.message
    assert "line 1:" not in caught.value.message


def test_a_list_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError):
        list_repositories(tmp_path / "nothing")


def test_passwords_in_urls_are_never_shown() -> None:
    location = locate("https://me:hunter2@example.org/x", Path("/"))
    assert location.url is not None
    assert "hunter2" in location.url
    assert "hunter2" not in repr(location) + location.shown


@given(st.text(max_size=30))
def test_locating_any_text_gives_a_place_or_a_known_error(text: str) -> None:
    try:
        location = locate(text, Path("/nonexistent"))
    except KnowingError:
        return
    assert (location.path is None) != (location.url is None)


@given(st.text(max_size=80) | st.binary(max_size=80))
def test_what_is_printed_has_one_line_and_no_controls(text: str | bytes) -> None:
    shown = printable(text)
    assert shown.isprintable() or not any(character < " " or "\x7f" <= character < "\xa0" for character in shown)
    assert "\n" not in shown
