"""Working views: what a commit of the work tree would hold, without making one."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from source.making import Repository, by_path, contents, reasons

from knowingd.errors import KnowingError
from knowingd.source import Entry, Source, open_source, working_view
from knowingd.source.disk import Beneath


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "made")
    for name in ("a.py", "b.py", "pkg/c.py", "pkg/d.py"):
        made.write(name, f"# {name}\n")
    made.write(".gitignore", "*.log\n/build/\n")
    made.commit()
    return made


def listed(source: Source) -> list[tuple[str, str, str]]:
    return [(entry.path, entry.content_id, str(entry.reason)) for entry in source.entries()]


NAMES = st.sampled_from(
    ["a.py", "b.py", "pkg/c.py", "pkg/d.py", "new.py", "pkg/new/e.py", "x.log", "build/f.py", "é.py"]
)
EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), NAMES, st.sampled_from(["# a.py\n", "x\n", "yy\n", ""])),
        st.tuples(st.just("delete"), NAMES, st.just("")),
        st.tuples(st.just("add"), NAMES, st.just("")),
        st.tuples(st.just("link"), NAMES, st.just("/etc/passwd")),
        st.tuples(st.just("touch"), NAMES, st.just("")),
    ),
    max_size=8,
)


def edit(made: Repository, kind: str, name: str, value: str) -> None:
    file = made.path / name
    if kind == "delete" or (kind in ("write", "link") and file.is_symlink()):
        file.unlink(missing_ok=True)
    if kind == "write":
        made.write(name, value)
    elif kind == "link" and not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(value)
    elif kind == "add" and (file.exists() or file.is_symlink()):
        made.git("add", "-f", name)
    elif kind == "touch" and file.exists() and not file.is_symlink():
        os.utime(file, (1, 1))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(EDITS)
def test_a_working_view_is_what_a_commit_of_it_would_be(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[str, str, str]]
) -> None:
    made = Repository(tmp_path_factory.mktemp("law"))
    for name in ("a.py", "b.py", "pkg/c.py", "pkg/d.py"):
        made.write(name, f"# {name}\n")
    made.write(".gitignore", "*.log\n/build/\n")
    head = made.commit()
    for kind, name, value in edits:
        edit(made, kind, name, value)
    with working_view(made.path) as source:
        assert (source.commit, source.branch) == (head, "main")
        entries = listed(source)
        found = contents(source)
    made.git("add", "-A")
    made.git("commit", "-q", "--allow-empty", "-m", "after")
    with open_source(made.path) as source:
        assert entries == listed(source)
        assert found == contents(source)


def test_a_clean_work_tree_is_its_commit(repository: Repository) -> None:
    with open_source(repository.path) as commit, working_view(repository.path) as view:
        assert view.entries() == commit.entries()
        assert contents(view) == contents(commit)


def test_unchanged_files_are_blobs_whatever_line_endings_the_disk_has(repository: Repository) -> None:
    repository.git("config", "core.autocrlf", "true")
    for name in ("a.py", "b.py"):
        (repository.path / name).unlink()
    repository.git("checkout", "-q", "--", ".")
    assert (repository.path / "a.py").read_bytes() == b"# a.py\r\n"
    past = time.time() - 100
    for name in ("a.py", "b.py"):
        os.utime(repository.path / name, (past, past))
    repository.git("update-index", "--refresh")
    with working_view(repository.path) as view:
        assert contents(view)["a.py"] == b"# a.py\n"


def test_a_change_of_the_same_size_in_the_same_moment_is_seen(repository: Repository) -> None:
    file = repository.path / "a.py"
    status = file.stat()
    file.write_bytes(b"# z.py\n")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    with working_view(repository.path) as view:
        assert contents(view)["a.py"] == b"# z.py\n"


def test_a_directory_replaced_by_a_link_is_not_followed(repository: Repository, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "c.py").write_text("secret\n")
    shutil.rmtree(repository.path / "pkg")
    (repository.path / "pkg").symlink_to(outside)
    with working_view(repository.path) as view:
        assert "secret" not in repr(contents(view))
        assert reasons(view) == {"pkg": "symlink"}


def test_pipes_are_not_opened(repository: Repository) -> None:
    (repository.path / "a.py").unlink()
    os.mkfifo(repository.path / "a.py")
    os.mkfifo(repository.path / "pipe.py")
    with working_view(repository.path) as view:
        assert set(contents(view)) == {".gitignore", "b.py", "pkg/c.py", "pkg/d.py"}


def test_a_file_that_vanishes_or_changes_after_listing_is_failed(repository: Repository) -> None:
    repository.write("new.py", "1\n")
    repository.write("other.py", "1\n")
    with working_view(repository.path) as view:
        entries = view.entries()
        (repository.path / "new.py").unlink()
        repository.write("other.py", "2\n")
        found = {entry.path: (entry.reason, content) for entry, content in view.read(entries)}
    assert found["new.py"] == ("failed", b"")
    assert found["other.py"] == ("failed", b"")
    assert found["a.py"] == (None, b"# a.py\n")


def test_nested_repositories_are_submodules(repository: Repository) -> None:
    nested = Repository(repository.path / "nested")
    nested.write("x.py")
    nested.commit()
    with working_view(repository.path) as view:
        assert reasons(view) == {"nested": "submodule"}


def test_ignore_files_of_the_work_tree_count_as_they_are_on_disk(repository: Repository) -> None:
    repository.write(".knowingignore", "b.py\n")
    (repository.path / ".git" / "info" / "exclude").write_text("local.py\n")
    repository.write("local.py")
    with working_view(repository.path) as view:
        assert reasons(view) == {"b.py": "ignored"}
        assert "local.py" not in by_path(view)


def test_sparse_checkouts_keep_what_they_leave_out(repository: Repository) -> None:
    repository.git("sparse-checkout", "set", "--no-cone", "/a.py")
    assert not (repository.path / "pkg").exists()
    with working_view(repository.path) as view:
        assert contents(view)["pkg/c.py"] == b"# pkg/c.py\n"


def test_a_split_index_is_read(repository: Repository) -> None:
    repository.git("update-index", "--split-index")
    repository.write("new.py")
    repository.git("add", "new.py")
    with working_view(repository.path) as view:
        assert {"a.py", "new.py"} <= set(contents(view))


def test_conflicts_are_read_from_disk(repository: Repository) -> None:
    repository.git("checkout", "-q", "-b", "side")
    repository.write("a.py", "side\n")
    repository.commit()
    repository.git("checkout", "-q", "main")
    repository.write("a.py", "main\n")
    repository.commit()
    with pytest.raises(AssertionError):
        repository.git("merge", "-q", "side")
    with working_view(repository.path) as view:
        assert b"<<<<<<<" in contents(view)["a.py"]


def test_a_linked_worktree_has_its_own_view(repository: Repository, tmp_path: Path) -> None:
    repository.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    (tmp_path / "linked" / "a.py").write_text("linked\n")
    with working_view(tmp_path / "linked") as view:
        assert view.branch == "side"
        assert contents(view)["a.py"] == b"linked\n"
    with working_view(repository.path) as view:
        assert contents(view)["a.py"] == b"# a.py\n"


def test_a_huge_changed_file_is_not_read(repository: Repository) -> None:
    with (repository.path / "a.py").open("wb") as file:
        file.truncate(100_000_000)
    with working_view(repository.path) as view:
        assert by_path(view)["a.py"] == Entry("a.py", "", 100_000_000, by_path(view)["a.py"].reason)
        assert reasons(view) == {"a.py": "too_large"}


def test_a_work_tree_that_was_never_checked_out_is_empty(repository: Repository, tmp_path: Path) -> None:
    repository.git("clone", "-q", "--no-checkout", ".", str(tmp_path / "clone"))
    with working_view(tmp_path / "clone") as view:
        assert view.entries() == []


def test_a_file_that_may_not_be_read_is_failed(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.write("new.py")
    # Permissions do not stop root, who runs tests in containers.
    monkeypatch.setattr(Beneath, "read", lambda *_: None)
    with working_view(repository.path) as view:
        assert reasons(view)["new.py"] == "failed"


def test_a_bare_repository_has_no_working_view(tmp_path: Path) -> None:
    made = Repository(tmp_path / "bare.git", "--bare")
    with pytest.raises(KnowingError, match="bare"):
        working_view(made.path)


def test_looking_does_not_touch_the_index(repository: Repository) -> None:
    os.utime(repository.path / "a.py", (1, 1))
    before = (repository.path / ".git" / "index").stat().st_mtime_ns
    with working_view(repository.path) as view:
        view.entries()
    assert (repository.path / ".git" / "index").stat().st_mtime_ns == before
