"""Makes repositories for tests, with a git that no configuration of the machine reaches."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from knowingd.source import Entry, Source

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "C",
    "GIT_COMMITTER_EMAIL": "c@example.org",
    "GIT_AUTHOR_DATE": "1700000000 +0000",
    "GIT_COMMITTER_DATE": "1700000000 +0000",
    "GIT_ALLOW_PROTOCOL": "file",
}


class Repository:
    """A repository that a test makes."""

    def __init__(self, path: Path, *options: str) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self.git("init", "-q", "-b", "main", *options)

    def git(self, *arguments: str, stdin: bytes = b"") -> str:
        done = subprocess.run(
            ["git", *arguments], cwd=self.path, env=ENVIRONMENT, input=stdin, capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.decode(errors="surrogateescape").strip()

    def write(self, path: str | bytes, content: bytes | str = b"x = 1\n") -> Path:
        file = self.path / os.fsdecode(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        return file

    def commit(self, message: str = "change") -> str:
        self.git("add", "-A", "-f")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")

    def commit_tree(self, lines: list[tuple[str, str, str, bytes]]) -> str:
        """A commit of a tree with any names at all: mode, kind, id, name."""
        raw = b"".join(
            mode.encode() + b" " + name + b"\0" + bytes.fromhex(identity) for mode, _, identity, name in lines
        )
        tree = self.git("hash-object", "-t", "tree", "-w", "--stdin", "--literally", stdin=raw)
        commit = self.git("commit-tree", tree, "-m", "odd")
        self.git("update-ref", "refs/heads/main", commit)
        return commit

    def blob(self, content: bytes) -> str:
        return self.git("hash-object", "-w", "--stdin", stdin=content)


def by_path(source: Source) -> dict[str, Entry]:
    return {entry.path: entry for entry in source.entries()}


def contents(source: Source) -> dict[str, bytes]:
    """What can be extracted, by path."""
    return {entry.path: content for entry, content in source.read(source.entries()) if entry.reason is None}


def reasons(source: Source) -> dict[str, str]:
    """What cannot, with the reasons."""
    return {entry.path: str(entry.reason) for entry, _ in source.read(source.entries()) if entry.reason is not None}
