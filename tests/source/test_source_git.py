"""Commits as sources: the same entries and bytes from every clone, and clear words where something is wrong."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tracemalloc
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from knowing_protocol.vocabulary import Coverage
from source.making import Repository, by_path, contents, reasons

from knowingd.errors import KnowingError, NotFoundError, UsageError
from knowingd.source import Entry, open_source, repository_url, working_view
from knowingd.source.classify import MAXIMUM_FILE_BYTES
from knowingd.source.gitsource import GitSource


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "made")
    made.write("a.py", "x = 1\n")
    made.write("pkg/b.py", "y = 2\r\n")
    made.commit()
    return made


def refusal(path: Path, ref: str | None = None) -> KnowingError:
    with pytest.raises(KnowingError) as caught, open_source(path, ref) as source:
        list(source.read(source.entries()))
    assert caught.value.message
    return caught.value


def loose(repository: Repository, identity: str) -> Path:
    return repository.path / ".git" / "objects" / identity[:2] / identity[2:]


# Laws

TREES = st.dictionaries(
    st.lists(
        st.text("abcé. -", min_size=1, max_size=4).filter(lambda n: n.strip(".") != ""), min_size=1, max_size=3
    ).map("/".join),
    st.binary(max_size=40),
    min_size=1,
    max_size=8,
).filter(lambda tree: not any(one.startswith(other + "/") for one in tree for other in tree))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TREES)
def test_every_clone_and_a_plain_copy_have_the_same_files(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, bytes]
) -> None:
    base = tmp_path_factory.mktemp("law")
    made = Repository(base / "made")
    for path, content in tree.items():
        made.write(path, content)
    commit = made.commit()
    made.git("clone", "-q", "--bare", ".", str(base / "bare.git"))
    made.git("clone", "-q", "--depth=1", f"file://{made.path}", str(base / "shallow"))
    made.git("worktree", "add", "-q", "--detach", str(base / "linked"))
    with open_source(made.path) as source:
        expected = source.entries()
        assert source.commit == commit
        assert [entry.path for entry in expected] == sorted(tree)
        bytes_of = {entry.path: content for entry, content in source.read(expected)}
        assert bytes_of == tree
    for clone in ("bare.git", "shallow", "linked"):
        with open_source(base / clone) as source:
            assert (source.commit, source.entries()) == (commit, expected)
            assert {entry.path: content for entry, content in source.read(expected)} == tree
    made.git("worktree", "remove", "--force", str(base / "linked"))
    subprocess.run(["rm", "-rf", str(made.path / ".git")], check=True)
    with open_source(made.path) as source:
        assert [entry.path for entry in source.entries()] == sorted(tree)


def test_reading_keeps_the_order_that_was_asked_for(repository: Repository) -> None:
    with open_source(repository.path) as source:
        entries = source.entries()
        backwards = [*reversed(entries), entries[0]]
        assert [entry for entry, _ in source.read(backwards)] == backwards


def test_entries_with_a_reason_are_passed_through_unopened(repository: Repository) -> None:
    with open_source(repository.path) as source:
        made_up = Entry("gone.py", "0" * 40, 7, Coverage.IGNORED)
        assert list(source.read([made_up])) == [(made_up, b"")]


def test_listing_and_reading_leave_the_repository_untouched(repository: Repository) -> None:
    def state() -> dict[str, tuple[int, int]]:
        found = [repository.path, *repository.path.rglob("*")]
        return {str(path): (path.lstat().st_mtime_ns, path.lstat().st_size) for path in found}

    before = state()
    with open_source(repository.path) as source:
        contents(source)
    assert state() == before


# Refs


def test_a_ref_a_tag_and_a_commit_are_read_without_touching_the_work_tree(repository: Repository) -> None:
    first = repository.git("rev-parse", "HEAD")
    repository.git("tag", "-a", "v1", "-m", "one")
    repository.git("branch", "side")
    repository.write("a.py", "changed\n")
    second = repository.commit()
    for ref, commit, branch in [
        (None, second, "main"),
        ("main", second, "main"),
        ("side", first, "side"),
        ("refs/heads/side", first, "side"),
        ("v1", first, ""),
        (first, first, ""),
        (first[:12], first, ""),
        ("HEAD~1", first, ""),
    ]:
        with open_source(repository.path, ref) as source:
            assert (source.commit, source.branch) == (commit, branch)
            assert contents(source)["a.py"] == (b"x = 1\n" if commit == first else b"changed\n")


def test_a_detached_head_has_no_branch(repository: Repository) -> None:
    repository.git("checkout", "-q", "--detach")
    with open_source(repository.path) as source:
        assert source.branch == ""


def test_packed_refs_and_packed_objects_are_found(repository: Repository) -> None:
    repository.git("gc", "-q")
    with open_source(repository.path, "main") as source:
        assert set(contents(source)) == {"a.py", "pkg/b.py"}


@pytest.mark.parametrize("ref", ["nothing", "0" * 40, "main:a.py", "main..side", "v1^{tree}", "HEAD^{tree}"])
def test_an_unknown_ref_is_not_found(repository: Repository, ref: str) -> None:
    error = refusal(repository.path, ref)
    assert isinstance(error, NotFoundError)
    assert error.hint


@pytest.mark.parametrize("ref", ["", "--help", "-x", "a\nb", "a\0b", "x" * 2000, "@{upstream}", "main@{1}"])
def test_a_ref_that_is_none_is_a_usage_error(repository: Repository, ref: str) -> None:
    assert isinstance(refusal(repository.path, ref), UsageError)


def test_an_empty_repository_says_so(tmp_path: Path) -> None:
    assert refusal(Repository(tmp_path).path).code == "empty-repository"


def test_a_head_that_leads_nowhere_says_so(repository: Repository) -> None:
    repository.git("symbolic-ref", "HEAD", "refs/heads/gone")
    assert refusal(repository.path).code == "broken-head"


def test_a_broken_git_file_is_an_error_and_not_a_plain_directory(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("gitdir: /nowhere\n")
    assert refusal(tmp_path).code == "broken-repository"


def test_a_broken_git_directory_further_up_does_not_matter(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "a.py").write_text("x = 1\n")
    with open_source(tmp_path / "d") as source:
        assert set(contents(source)) == {"a.py"}


def test_a_directory_inside_means_the_whole_repository_and_says_so(repository: Repository) -> None:
    with open_source(repository.path / "pkg") as source:
        assert set(contents(source)) == {"a.py", "pkg/b.py"}
        assert "inside of the repository" in source.notes[0]
    with open_source(repository.path) as source:
        assert source.notes == ()


def test_a_directory_that_only_lies_in_a_work_tree_is_a_plain_one(repository: Repository) -> None:
    repository.write("scratch/c.py")
    with open_source(repository.path / "scratch") as source:
        assert set(contents(source)) == {"c.py"}
        assert "plain directory" in source.notes[0]


def test_a_submodule_is_a_repository_of_its_own(repository: Repository, tmp_path: Path) -> None:
    outer = Repository(tmp_path / "outer")
    outer.git("submodule", "add", "-q", f"file://{repository.path}", "sub")
    outer.commit()
    with open_source(outer.path) as source:
        assert reasons(source) == {"sub": "submodule"}
    with open_source(outer.path / "sub") as source:
        assert source.root == outer.path / "sub"
        assert set(contents(source)) == {"a.py", "pkg/b.py"}
    assert repository_url(outer.path / "sub").startswith("local/sub-")
    (outer.path / "sub" / "a.py").write_text("changed\n")
    with working_view(outer.path) as source:
        assert reasons(source) == {"sub": "submodule"}
    with working_view(outer.path / "sub") as source:
        assert contents(source)["a.py"] == b"changed\n"


def test_links_that_git_itself_follows_are_followed(repository: Repository, tmp_path: Path) -> None:
    git = repository.path / ".git"
    git.rename(tmp_path / "elsewhere")
    git.symlink_to(tmp_path / "elsewhere")
    head = tmp_path / "elsewhere" / "HEAD"
    head.unlink()
    head.symlink_to("refs/heads/main")
    (tmp_path / "shortcut").symlink_to(repository.path)
    with open_source(tmp_path / "shortcut") as source:
        assert source.branch == "main"
        assert source.root == repository.path
        assert set(contents(source)) == {"a.py", "pkg/b.py"}


@pytest.mark.parametrize("setting", ["objectFormat = md5", "refStorage = stone"])
def test_a_format_of_the_future_is_refused(repository: Repository, setting: str) -> None:
    with (repository.path / ".git" / "config").open("a") as config:
        config.write(f"[extensions]\n\t{setting}\n")
    assert refusal(repository.path).code == "unsupported-repository"


def test_a_repository_with_sha256_objects(tmp_path: Path) -> None:
    made = Repository(tmp_path, "--object-format=sha256")
    made.write("a.py")
    commit = made.commit()
    with open_source(tmp_path) as source:
        assert source.commit == commit
        assert len(commit) == 64
        assert contents(source) == {"a.py": b"x = 1\n"}


def test_borrowed_objects_are_found(repository: Repository, tmp_path: Path) -> None:
    repository.git("clone", "-q", "--shared", ".", str(tmp_path / "borrower"))
    with open_source(tmp_path / "borrower") as source:
        assert set(contents(source)) == {"a.py", "pkg/b.py"}


# Bytes


def test_blobs_are_read_as_they_are_whatever_attributes_say(repository: Repository) -> None:
    repository.write(".gitattributes", "*.py text eol=crlf ident filter=x working-tree-encoding=UTF-16\n")
    repository.git("config", "core.autocrlf", "true")
    repository.git("update-index", "--add", "--cacheinfo", f"100644,{repository.blob(b'# $Id$')},id.py")
    repository.git("commit", "-q", "-m", "x")
    with open_source(repository.path) as source:
        assert contents(source)["id.py"] == b"# $Id$"
        assert contents(source)["pkg/b.py"] == b"y = 2\r\n"


# Reasons


def test_what_is_not_extracted_has_its_reason(repository: Repository) -> None:
    files: dict[str, bytes] = {
        "logo.png": b"\x89PNG\0\0",
        "vendor/lib.py": b"x",
        "web/node_modules/x/index.js": b"x",
        "api_pb2.py": b"x",
        "marked.py": b"# @generated by x\n",
        "poetry.lock": b"x",
        "lfs.bin": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
        "docs/skip.py": b"x",
        "docs/keep.py": b"x",
        ".knowingignore": b"docs/*\n!docs/keep.py\n",
        "deep/.knowingignore": b"/here.py\n",
        "deep/here.py": b"x",
        "deep/er/here.py": b"x",
    }
    for path, content in files.items():
        repository.write(path, content)
    (repository.path / "link.py").symlink_to("/etc/passwd")
    repository.commit()
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    repository.git("commit", "-q", "-m", "sub")
    with open_source(repository.path) as source:
        assert reasons(source) == {
            "logo.png": "binary",
            "vendor/lib.py": "vendored",
            "web/node_modules/x/index.js": "vendored",
            "api_pb2.py": "generated",
            "marked.py": "generated",
            "poetry.lock": "generated",
            "lfs.bin": "lfs_pointer",
            "docs/skip.py": "ignored",
            "deep/here.py": "ignored",
            "link.py": "symlink",
            "sub": "submodule",
        }
        assert set(contents(source)) == {
            *("a.py", "pkg/b.py", "docs/keep.py", ".knowingignore", "deep/.knowingignore", "deep/er/here.py"),
        }


def test_gitignore_does_not_hide_what_is_committed(repository: Repository) -> None:
    repository.write(".gitignore", "*.py\n")
    repository.commit()
    with open_source(repository.path) as source:
        assert "a.py" in contents(source)


def test_a_tree_can_ask_for_its_vendored_code(repository: Repository) -> None:
    repository.write("vendor/ours.py")
    repository.write("vendor/big.bin", bytes(MAXIMUM_FILE_BYTES + 1))
    repository.write(".knowingignore", "!vendor/\n")
    repository.commit()
    with open_source(repository.path) as source:
        assert "vendor/ours.py" in contents(source)
        assert reasons(source) == {"vendor/big.bin": "too_large"}


def test_an_ignore_file_that_is_a_link_or_huge_is_not_obeyed_silently(repository: Repository) -> None:
    (repository.path / ".knowingignore").symlink_to("a.py")
    repository.commit()
    with open_source(repository.path) as source:
        assert reasons(source) == {".knowingignore": "symlink"}
    (repository.path / ".knowingignore").unlink()
    repository.write(".knowingignore", b"x" * (3 << 20))
    repository.commit()
    assert refusal(repository.path).code == "ignore-file"


def test_a_file_of_100_mb_is_listed_and_not_read(repository: Repository) -> None:
    repository.write("huge.py", bytes(100_000_000))
    repository.commit()
    tracemalloc.start()
    with open_source(repository.path) as source:
        assert by_path(source)["huge.py"].size == 100_000_000
        assert reasons(source) == {"huge.py": "too_large"}
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000


def test_memory_is_bounded_while_reading_many_files(tmp_path: Path) -> None:
    made = Repository(tmp_path)
    for number in range(40):
        made.write(f"{number}.txt", os.urandom(500_000).hex())
    made.commit()
    with open_source(tmp_path) as source:
        entries = source.entries()
        tracemalloc.start()
        total = sum(len(content) for _, content in source.read(entries))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert total == 40_000_000
    assert peak < 8_000_000


def test_a_reader_that_stops_early_leaves_no_process(repository: Repository) -> None:
    with open_source(repository.path) as source:
        reading = source.read(source.entries())
        next(reading)
        reading.close()  # type: ignore[attr-defined]
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


# Odd names


def test_odd_names_survive_escaped_and_sorted(tmp_path: Path) -> None:
    made = Repository(tmp_path)
    blob = made.blob(b"x = 1\n")
    names = [
        b"\xff.py",
        b"a\nb.py",
        b"A.py",
        b"a.py",
        b"tab\t.py",
        b"back\\slash.py",
        "é.py".encode(),
        b"\xe2\x80\xae.py",
    ]
    made.commit_tree([("100644", "blob", blob, name) for name in sorted(names)])
    with open_source(tmp_path) as source:
        entries = source.entries()
        assert [entry.path for entry in entries] == sorted(
            ["\\xFF.py", "a\\x0Ab.py", "A.py", "a.py", "tab\\x09.py", "back\\x5Cslash.py", "é.py", "\\xE2\\x80\\xAE.py"]
        )
        assert set(contents(source).values()) == {b"x = 1\n"}


def test_names_that_lead_out_of_the_tree_do_not(tmp_path: Path) -> None:
    made = Repository(tmp_path)
    blob = made.blob(b"x = 1\n")
    made.commit_tree([("100644", "blob", blob, name) for name in (b"..", b"../../etc/passwd", b"/etc/passwd", b".git")])
    with open_source(tmp_path) as source:
        assert set(contents(source)) == {"\\x2E\\x2E", "\\x2E\\x2E/\\x2E\\x2E/etc/passwd", "\\x2Fetc/passwd", ".git"}


def test_a_name_that_is_too_long_is_listed_and_not_extracted(tmp_path: Path) -> None:
    made = Repository(tmp_path)
    blob = made.blob(b"x = 1\n")
    made.commit_tree([("100644", "blob", blob, b"a" * 5000), ("100644", "blob", blob, b"a" * 5001)])
    with open_source(tmp_path) as source:
        assert len(source.entries()) == 2
        assert set(reasons(source).values()) == {"too_large"}


def test_a_tree_that_names_a_path_twice_gives_one_entry_whatever_the_order(tmp_path: Path) -> None:
    made = Repository(tmp_path)
    one, two = made.blob(b"1"), made.blob(b"2")
    found = []
    for order in ((one, two), (two, one)):
        made.commit_tree([("100644", "blob", blob, b"a.py") for blob in order])
        with open_source(tmp_path) as source:
            found.append(source.entries())
    assert found[0] == found[1]
    assert len(found[0]) == 1


# What a commit means


def test_replacements_and_grafts_do_not_change_what_a_commit_means(repository: Repository) -> None:
    first = repository.git("rev-parse", "HEAD")
    repository.write("a.py", "other\n")
    second = repository.commit()
    with open_source(repository.path, first) as source:
        expected = contents(source)
    repository.git("replace", first, second)
    repository.git("replace", repository.git("rev-parse", f"{second}:a.py"), repository.blob(b"evil\n"))
    info = repository.path / ".git" / "info"
    (info / "grafts").write_text(f"{first} {second}\n")
    assert repository.git("show", f"{first}:a.py") != "x = 1"
    with open_source(repository.path, first) as source:
        assert (source.commit, contents(source)) == (first, expected)


def test_a_blob_with_the_content_of_another_is_refused_by_name(repository: Repository) -> None:
    blob = repository.git("rev-parse", "HEAD:a.py")
    loose(repository, blob).chmod(0o644)
    loose(repository, blob).write_bytes(zlib.compress(b"blob 6\0x = 2\n"))
    error = refusal(repository.path)
    assert error.code == "corrupt-object"
    assert blob in error.message


def test_a_tree_with_the_content_of_another_is_refused_by_name(repository: Repository) -> None:
    tree = repository.git("rev-parse", "HEAD:pkg")
    other = repository.blob(b"evil\n")
    content = b"100644 b.py\0" + bytes.fromhex(other)
    loose(repository, tree).chmod(0o644)
    loose(repository, tree).write_bytes(zlib.compress(b"tree %d\0" % len(content) + content))
    error = refusal(repository.path)
    assert error.code == "corrupt-object"
    assert tree in error.message


@pytest.mark.parametrize("damage", [b"", b"garbage", zlib.compress(b"blob 6\0x")])
def test_a_damaged_object_is_named(repository: Repository, damage: bytes) -> None:
    blob = repository.git("rev-parse", "HEAD:a.py")
    loose(repository, blob).chmod(0o644)
    loose(repository, blob).write_bytes(damage)
    error = refusal(repository.path)
    assert error.code in ("corrupt-object", "missing-object")
    assert blob in error.message


def test_a_missing_blob_is_named_with_its_path(repository: Repository) -> None:
    blob = repository.git("rev-parse", "HEAD:pkg/b.py")
    loose(repository, blob).unlink()
    error = refusal(repository.path)
    assert error.code == "missing-object"
    assert blob in error.message
    assert "pkg/b.py" in error.message


def test_a_damaged_pack_is_an_error_that_names_an_object(repository: Repository) -> None:
    repository.git("gc", "-q")
    (pack,) = (repository.path / ".git" / "objects" / "pack").glob("*.pack")
    content = bytearray(pack.read_bytes())
    for at in range(12, len(content) - 20):
        content[at] ^= 0x55
    pack.chmod(0o644)
    pack.write_bytes(content)
    error = refusal(repository.path)
    assert error.code in ("corrupt-object", "missing-object", "git-failed", "broken-head")


# Ownership


def test_the_repository_of_another_user_is_explained(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 12345)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    error = refusal(repository.path)
    assert error.code == "dubious-ownership"
    assert f"safe.directory {repository.path}" in error.hint


@pytest.mark.parametrize("listed", ["*", "{path}", "{parent}/*"])
def test_what_the_user_lists_as_safe_is_read(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, listed: str
) -> None:
    value = listed.format(path=repository.path, parent=repository.path.parent)
    (tmp_path / "config").write_text(f'[safe]\n\tdirectory = "{value}"\n')
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 12345)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    with open_source(repository.path) as source:
        assert isinstance(source, GitSource)


def test_the_view_is_removed_when_the_source_is_closed(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    with open_source(repository.path) as source:
        contents(source)
        assert len(list(scratch.iterdir())) == 1
    with pytest.raises(NotFoundError):
        open_source(repository.path, "nothing")
    assert list(scratch.iterdir()) == []
    assert set(repository.git("ls-files").split()) == {"a.py", "pkg/b.py"}


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # newer Pythons warn where threads run
def test_a_forked_worker_does_not_take_the_view_from_its_parent(repository: Repository) -> None:
    with open_source(repository.path) as source:
        child = os.fork()
        if child == 0:
            try:
                assert set(contents(source)) == {"a.py", "pkg/b.py"}
                source.close()
            except BaseException:  # noqa: BLE001 - the parent sees the status
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert set(contents(source)) == {"a.py", "pkg/b.py"}


def test_content_ids_are_those_of_git(repository: Repository) -> None:
    with open_source(repository.path) as source:
        identity = by_path(source)["a.py"].content_id
    assert identity == hashlib.sha1(b"blob 6\0x = 1\n").hexdigest()
