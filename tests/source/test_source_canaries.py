"""Nothing that a repository or the environment configures is executed.

Each test plants programs that leave a mark when they run. The first shows that the marks appear with an ordinary git,
so that their absence afterwards means something.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from source.making import ENVIRONMENT, Repository, contents, reasons

from knowingd.errors import KnowingError
from knowingd.source import mirror, open_source, repository_url, working_view


class Trap:
    """A repository full of canaries."""

    def __init__(self, base: Path) -> None:
        self.marks = base / "marks"
        self.marks.mkdir()
        self.programs = base / "programs"
        self.programs.mkdir()
        self.repository = Repository(base / "trap")
        made = self.repository
        made.write("a.py", "x = 1\n")
        made.write("b.py", "y = 1\n")
        made.write(".gitattributes", "*.py filter=evil diff=evil merge=evil\n")
        self.commit = made.commit()
        for name in ("post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "post-commit"):
            self.program(name)
        settings = {
            "core.fsmonitor": self.program("fsmonitor"),
            "core.hooksPath": str(self.programs),
            "core.sshCommand": self.program("sshcommand"),
            "core.pager": self.program("pager"),
            "core.editor": self.program("editor"),
            "core.askPass": self.program("askpass"),
            "core.gitProxy": self.program("gitproxy"),
            "core.alternateRefsCommand": self.program("alternaterefs"),
            "core.worktree": "/etc",
            "pager.ls-tree": self.program("pager-lstree"),
            "pager.cat-file": self.program("pager-catfile"),
            "pager.config": self.program("pager-config"),
            "alias.ls-tree": f"!{self.program('alias')}",
            "alias.evil": f"!{self.program('alias')}",
            "diff.external": self.program("external"),
            "diff.evil.command": self.program("diffcommand"),
            "diff.evil.textconv": self.program("textconv"),
            "merge.evil.driver": self.program("driver"),
            "filter.evil.clean": self.program("clean"),
            "filter.evil.smudge": self.program("smudge"),
            "filter.evil.process": self.program("process"),
            "filter.evil.required": "true",
            "credential.helper": f"!{self.program('credential')}",
            "remote.origin.url": f"file://{base}/nowhere",
            "remote.origin.uploadpack": self.program("uploadpack"),
            "remote.origin.receivepack": self.program("receivepack"),
            "remote.origin.promisor": "true",
            "remote.origin.partialclonefilter": "blob:none",
            "extensions.partialClone": "origin",
            "uploadpack.packObjectsHook": self.program("packhook"),
            "gpg.program": self.program("gpg"),
            "log.showSignature": "true",
            "trace2.eventTarget": str(self.marks / "trace2"),
            "protocol.allow": "always",
            "safe.directory": "*",
            "include.path": str(base / "included"),
            "includeIf.gitdir:/**.path": str(base / "included"),
        }
        (base / "included").write_text(f"[core]\n\tfsmonitor = {self.program('included')}\n")
        config = made.path / ".git" / "config"
        # core.worktree would stop our own preparations, so the file is written at once.
        text = config.read_text().replace("repositoryformatversion = 0", "repositoryformatversion = 1")
        for key, value in settings.items():
            section, _, name = key.rpartition(".")
            head, _, middle = section.partition(".")
            text += f'[{head} "{middle}"]\n' if middle else f"[{head}]\n"
            text += f'\t{name} = "{value}"\n'
        config.write_text(text)
        # A changed file of the same size and an untracked one, so that git would have to look.
        made.write("b.py", "y = 2\n")
        made.write("c.py", "z = 1\n")

    def program(self, name: str) -> str:
        file = self.programs / name
        file.write_text(f"#!/bin/sh\ntouch '{self.marks}/{name}'\nexit 1\n")
        file.chmod(0o755)
        return str(file)

    def marked(self) -> set[str]:
        return {path.name for path in self.marks.iterdir()}


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path)


def test_the_canaries_do_sing_for_an_ordinary_git(trap: Trap) -> None:
    missing = "1" * 40
    environment = {**ENVIRONMENT, "GIT_WORK_TREE": str(trap.repository.path), "GIT_ALLOW_PROTOCOL": "file:ssh"}
    for command in (
        ["git", "status"],
        ["git", "add", "b.py"],
        ["git", "-c", "filter.evil.required=false", "-c", "filter.evil.process=", "-c", "filter.evil.clean=", "diff"],
        ["git", "evil"],
        ["git", "cat-file", "-p", missing],
        ["git", "ls-remote", "ssh://host.invalid/x"],
    ):
        subprocess.run(command, cwd=trap.repository.path, env=environment, capture_output=True, check=False, timeout=60)
    assert {"alias", "sshcommand", "uploadpack"} <= trap.marked()
    assert trap.marked() & {"external", "diffcommand"}
    assert trap.marked() & {"fsmonitor", "included"}
    assert trap.marked() & {"clean", "process"}


def test_reading_a_commit_executes_nothing(trap: Trap) -> None:
    for ref in (None, "main", trap.commit[:10]):
        with open_source(trap.repository.path, ref) as source:
            assert set(contents(source)) == {".gitattributes", "a.py", "b.py"}
    assert trap.marked() == set()


def test_a_working_view_executes_nothing_and_stays_where_the_repository_is(trap: Trap) -> None:
    with working_view(trap.repository.path) as source:
        assert source.root == trap.repository.path
        found = contents(source)
    assert found["b.py"] == b"y = 2\n"
    assert set(found) == {".gitattributes", "a.py", "b.py", "c.py"}
    assert trap.marked() == set()


def test_asking_for_the_name_executes_nothing(trap: Trap) -> None:
    assert repository_url(trap.repository.path).startswith("local/trap-")
    assert trap.marked() == set()


def test_a_missing_object_is_not_fetched(trap: Trap) -> None:
    blob = (
        subprocess.run(
            ["git", "hash-object", "--no-filters", "a.py"],
            cwd=trap.repository.path,
            env=ENVIRONMENT,
            capture_output=True,
            check=True,
        )
        .stdout.decode()
        .strip()
    )
    (trap.repository.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    for ref in (None, "2" * 40):
        with pytest.raises(KnowingError) as caught, open_source(trap.repository.path, ref) as source:
            contents(source)
        assert caught.value.code in ("missing-object", "not-found")
    assert trap.marked() == set()


def test_mirroring_a_trap_executes_nothing(trap: Trap, tmp_path: Path) -> None:
    url = f"file://{trap.repository.path}"
    target = tmp_path / "mirror.git"
    # The trap claims to be a partial clone with a work tree elsewhere; whether git serves it or not, nothing may run.
    for _ in range(2):
        try:
            mirror(url, target)
        except KnowingError as error:
            assert error.hint  # noqa: PT017 - either outcome is fine
    assert trap.marked() == set()


def hostile_environment(trap: Trap) -> dict[str, str]:
    home = trap.programs.parent / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        f"[core]\n\tfsmonitor = {trap.program('home')}\n\tpager = {trap.program('home')}\n"
        f"\thooksPath = {trap.programs}\n"
        f"\tsshCommand = {trap.program('home')}\n[credential]\n\thelper = {trap.program('home')}\n"
        f"[init]\n\ttemplateDir = {trap.programs.parent / 'template'}\n"
        f"[uploadpack]\n\tpackObjectsHook = {trap.program('home')}\n[trace2]\n\teventTarget = {trap.marks / 'trace2'}\n"
    )
    hooks = trap.programs.parent / "template" / "hooks"
    hooks.mkdir(parents=True)
    for name in ("reference-transaction", "post-checkout"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch '{trap.marks}/template'\n")
        (hooks / name).chmod(0o755)
    for name in ("git-remote-file", "git-upload-pack", "git-cat-file"):
        trap.program(name)
    evil = trap.program("environment")
    return {
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
        "GIT_CONFIG_SYSTEM": str(home / ".gitconfig"),
        "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor={evil}'",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": evil,
        "GIT_EXEC_PATH": str(trap.programs),
        "GIT_TEMPLATE_DIR": str(trap.programs.parent / "template"),
        "GIT_EXTERNAL_DIFF": evil,
        "GIT_SSH": evil,
        "GIT_SSH_COMMAND": evil,
        "GIT_PROXY_COMMAND": evil,
        "GIT_ASKPASS": evil,
        "SSH_ASKPASS": evil,
        "GIT_PAGER": evil,
        "PAGER": evil,
        "GIT_EDITOR": evil,
        "GIT_DIR": "/nonexistent",
        "GIT_WORK_TREE": "/etc",
        "GIT_INDEX_FILE": "/nonexistent",
        "GIT_OBJECT_DIRECTORY": "/nonexistent",
        "GIT_COMMON_DIR": "/nonexistent",
        "GIT_NAMESPACE": "evil",
        "GIT_CEILING_DIRECTORIES": "/",
        "GIT_REPLACE_REF_BASE": "refs/heads/",
        "GIT_SHALLOW_FILE": "/nonexistent",
        "GIT_LITERAL_PATHSPECS": "0",
        "GIT_GLOB_PATHSPECS": "1",
        "GIT_DEFAULT_HASH": "sha256",
        "GIT_TRACE": str(trap.marks / "trace"),
        "GIT_TRACE2": str(trap.marks / "trace"),
        "GIT_TRACE_SETUP": str(trap.marks / "trace"),
        "LD_PRELOAD": "",
    }


def test_the_environment_of_the_user_changes_nothing(
    trap: Trap, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plain = Repository(tmp_path / "plain")
    plain.write("a.py")
    plain.commit()
    for name, value in hostile_environment(trap).items():
        monkeypatch.setenv(name, value)
    here = Path.cwd()
    os.chdir(trap.programs)  # where programs that are called like git's own lie about
    try:
        monkeypatch.setenv("PATH", f".::{os.environ['PATH']}")
        with open_source(trap.repository.path) as source:
            assert set(contents(source)) == {".gitattributes", "a.py", "b.py"}
        with working_view(trap.repository.path) as source:
            assert contents(source)["b.py"] == b"y = 2\n"
        repository_url(trap.repository.path)
        for _ in range(2):
            mirror(f"file://{plain.path}", tmp_path / "copy.git")
    finally:
        os.chdir(here)
    with open_source(tmp_path / "copy.git") as source:
        assert contents(source) == {"a.py": b"x = 1\n"}
    assert not (tmp_path / "copy.git" / "hooks").exists()
    assert trap.marked() == set()


def test_a_configuration_that_includes_a_pipe_does_not_hang(trap: Trap) -> None:
    pipe = trap.programs / "pipe"
    os.mkfifo(pipe)
    with (trap.repository.path / ".git" / "config").open("a") as config:
        config.write(f"[include]\n\tpath = {pipe}\n")
    with open_source(trap.repository.path) as source:
        assert "a.py" in contents(source)
    repository_url(trap.repository.path)
    assert trap.marked() == set()


def test_pipes_where_git_keeps_its_things_do_not_hang(trap: Trap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knowingd.source.objects.STALLED_SECONDS", 0.5)
    monkeypatch.setattr("knowingd.source.gitrun.SECONDS", 0.5)
    git = trap.repository.path / ".git"
    os.mkfifo(git / "packed-refs")
    with open_source(trap.repository.path) as source:
        assert "a.py" in contents(source)
    os.mkfifo(trap.repository.path / ".gitignore")
    (git / "index").unlink()
    os.mkfifo(git / "index")
    with pytest.raises(KnowingError) as caught, working_view(trap.repository.path) as source:
        source.entries()
    assert caught.value.code == "git-timeout"
    commit = git / "objects" / trap.commit[:2] / trap.commit[2:]
    commit.unlink()
    os.mkfifo(commit)
    with pytest.raises(KnowingError, match="does not come back") as caught:
        open_source(trap.repository.path)
    assert caught.value.code == "corrupt-object"
    (git / "HEAD").unlink()
    os.mkfifo(git / "HEAD")
    with pytest.raises(KnowingError) as caught:
        open_source(trap.repository.path)
    assert caught.value.code == "broken-repository"


def test_a_link_in_the_tree_is_not_followed_by_either_source(trap: Trap) -> None:
    (trap.repository.path / "link.py").symlink_to("/etc/passwd")
    with working_view(trap.repository.path) as source:
        assert reasons(source) == {"link.py": "symlink"}
