"""Plain directories: their content stands for a commit, and nothing in them is followed or waited for."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from source.making import Repository, by_path, contents, reasons

from knowingd.errors import KnowingError, NotFoundError, UsageError
from knowingd.source import open_source, working_view
from knowingd.source.disk import Beneath


def write(root: Path, path: str | bytes, content: bytes | str = "x = 1\n") -> Path:
    file = root / os.fsdecode(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def commit_of(root: Path) -> str:
    with open_source(root) as source:
        return source.commit


NAMES = st.sampled_from(["a.py", "b.py", "d/a.py", "d/e/c.py", "vendor/x.py", "x.log", "z\nz.py"])


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(NAMES, st.binary(max_size=8), min_size=1), st.randoms())
def test_the_commit_depends_on_the_content_alone(
    tmp_path_factory: pytest.TempPathFactory,
    tree: dict[str, bytes],
    random: Random,
) -> None:
    roots = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("other")
    for root in roots:
        names = list(tree)
        random.shuffle(names)
        for name in names:
            write(root, name, tree[name])
    assert commit_of(roots[0]) == commit_of(roots[1])
    with open_source(roots[0]) as source:
        extractable = [name for name in contents(source) if name.endswith("a.py")]
    if extractable:
        write(roots[0], extractable[0], tree[extractable[0]] + b"!")
        assert commit_of(roots[0]) != commit_of(roots[1])


def test_a_commit_is_64_hexadecimal_digits_and_there_is_no_branch(tmp_path: Path) -> None:
    write(tmp_path, "a.py")
    with open_source(tmp_path) as source:
        assert len(bytes.fromhex(source.commit)) == 32
        assert source.branch == ""
        assert source.root == tmp_path


def test_both_ignore_files_count_in_every_directory_and_the_tree_has_the_last_word(tmp_path: Path) -> None:
    for path in ("a.log", "d/b.log", "d/keep.log", "build/x.py", "d/secret.py", "d/wanted.log", "out/y.py"):
        write(tmp_path, path)
    write(tmp_path, ".gitignore", "*.log\n/build/\n")
    write(tmp_path, "d/.gitignore", "!keep.log\n")
    write(tmp_path, "d/.knowingignore", "secret.py\n!wanted.log\n")
    write(tmp_path, ".knowingignore", "/out\n")
    with open_source(tmp_path) as source:
        assert reasons(source) == {
            "a.log": "ignored",
            "build/": "ignored",
            "d/b.log": "ignored",
            "d/secret.py": "ignored",
            "out/": "ignored",
        }
        assert {"d/keep.log", "d/wanted.log"} <= set(contents(source))


def test_links_are_listed_and_never_followed(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "etc").symlink_to("/etc")
    (tmp_path / "passwd.py").symlink_to("/etc/passwd")
    (tmp_path / "self").symlink_to("self")
    (tmp_path / ".knowingignore").symlink_to("a.py")
    write(tmp_path, "a.py")
    with open_source(tmp_path) as source:
        assert set(contents(source)) == {"a.py"}
        assert set(reasons(source)) == {"loop", "etc", "passwd.py", "self", ".knowingignore"}
        assert set(reasons(source).values()) == {"symlink"}


def test_pipes_sockets_and_devices_are_neither_opened_nor_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    monkeypatch.chdir(tmp_path)  # the names of sockets are short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("sock.py")
        if os.geteuid() == 0:
            os.mknod("null.py", 0o600 | 0o020000, os.makedev(1, 3))
        write(tmp_path, "a.py")
        opened: list[object] = []
        really_open = os.open

        def watched(path: object, *arguments: object, **options: object) -> int:
            opened.append(path)
            return really_open(path, *arguments, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(os, "open", watched)
        with open_source(tmp_path) as source:
            assert [entry.path for entry in source.entries()] == ["a.py"]
    assert not {b"pipe.py", b"sock.py", b"null.py"} & {one for one in opened if isinstance(one, bytes)}


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.py").open("wb") as file:
        file.truncate(100_000_000_000)  # sparse: reading it would take minutes
    with open_source(tmp_path) as source:
        assert reasons(source) == {"huge.py": "too_large"}


def test_records_of_version_control_are_no_content_and_nested_repositories_are_their_own(tmp_path: Path) -> None:
    for path in (".hg/store", ".svn/entries", "CVS/Root", "d/.jj/x", "a.py"):
        write(tmp_path, path)
    nested = Repository(tmp_path / "nested")
    nested.write("x.py")
    nested.commit()
    write(tmp_path, "module/.git", "gitdir: ../elsewhere\n")
    write(tmp_path, "module/y.py")
    with open_source(tmp_path) as source:
        assert set(contents(source)) == {"a.py"}
        assert reasons(source) == {"nested": "submodule", "module": "submodule"}


def test_a_file_that_vanishes_or_changes_while_reading_is_failed_and_the_rest_is_read(tmp_path: Path) -> None:
    for name in ("a.py", "b.py", "c.py", "d/e.py"):
        write(tmp_path, name)
    with open_source(tmp_path) as source:
        entries = source.entries()
        reading = source.read(entries)
        assert next(reading)[1] == b"x = 1\n"
        (tmp_path / "b.py").unlink()
        write(tmp_path, "c.py", "changed\n")
        (tmp_path / "d" / "e.py").unlink()
        (tmp_path / "d").rmdir()
        (tmp_path / "d").symlink_to("/etc")
        assert [(entry.path, entry.reason, content) for entry, content in reading] == [
            ("b.py", "failed", b""),
            ("c.py", "failed", b""),
            ("d/e.py", "failed", b""),
        ]


def test_a_file_that_vanishes_while_listing_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a.py")
    write(tmp_path, "b.py")
    write(tmp_path, "d/c.py")
    status = Beneath.status

    def vanishing(self: Beneath, path: bytes) -> os.stat_result:
        if path == b"b.py":
            (tmp_path / "b.py").unlink()
        return status(self, path)

    monkeypatch.setattr(Beneath, "status", vanishing)
    with open_source(tmp_path) as source:
        assert set(by_path(source)) == {"a.py", "d/c.py"}


def test_a_directory_swapped_for_a_link_between_two_steps_does_not_lead_out(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    write(outside, "secret.py", "secret\n")
    root = tmp_path / "root"
    write(root, "d/secret.py", "mine\n")
    with Beneath(root) as beneath:
        assert beneath.read(b"d/secret.py", 100) == b"mine\n"
        (root / "d").rename(root / "was")
        (root / "d").symlink_to(outside)
        assert beneath.read(b"d/secret.py", 100) in (b"mine\n", None)
        beneath.directory(b"")
        assert beneath.read(b"d/secret.py", 100) is None


def test_odd_names_survive(tmp_path: Path) -> None:
    names = [b"\xff.py", b"a\nb.py", b"back\\slash.py", "é.py".encode(), b" .py", b"%41.py"]
    for name in names:
        write(tmp_path, name)
    with open_source(tmp_path) as source:
        assert sorted(contents(source)) == sorted(
            ["\\xFF.py", "a\\x0Ab.py", "back\\x5Cslash.py", "é.py", " .py", "%41.py"]
        )


def test_a_very_deep_directory_is_walked(tmp_path: Path) -> None:
    depth = 150
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(b"d" * 50, dir_fd=here)
        deeper = os.open(b"d" * 50, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(os.open(b"a.py", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    with open_source(tmp_path) as source:
        (entry,) = source.entries()
        assert len(entry.path.encode()) == 4096
        assert reasons(source) == {entry.path: "too_large"}
    descriptors = sum(1 for _ in Path("/dev/fd").iterdir())
    assert descriptors < 200


def test_what_may_not_be_read_is_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a.py")
    write(tmp_path, "shut/b.py")
    write(tmp_path, "c.py")
    directory, read = Beneath.directory, Beneath.read

    def refusing(self: Beneath, path: bytes) -> int:
        if path == b"shut":
            raise PermissionError
        return directory(self, path)

    # Permissions do not stop root, who runs tests in containers.
    monkeypatch.setattr(Beneath, "directory", refusing)
    monkeypatch.setattr(Beneath, "read", lambda self, path, limit: None if path == b"c.py" else read(self, path, limit))
    with open_source(tmp_path) as source:
        assert reasons(source) == {"shut/": "failed", "c.py": "failed"}


def test_a_directory_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    write(tmp_path, "file")
    for path in ("nowhere", "file"):
        with pytest.raises(NotFoundError):
            open_source(tmp_path / path)


def test_a_plain_directory_has_no_refs(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        open_source(tmp_path, "main")
    assert isinstance(caught.value, KnowingError)


def test_the_working_view_of_a_plain_directory_is_itself(tmp_path: Path) -> None:
    write(tmp_path, "a.py")
    with working_view(tmp_path) as view:
        assert view.commit == commit_of(tmp_path)
