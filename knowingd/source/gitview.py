"""Finds repositories, and opens a view of one through which git reads objects and references and nothing else.

The view is a `GIT_DIR` of our own in a temporary directory. It borrows the object directory and the references of the
repository; its configuration is ours. Linked worktrees, bare and shallow repositories look the same through it.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from knowingd.errors import NotFoundError
from knowingd.source import gitrun
from knowingd.source.errors import SourceError, printable
from knowingd.source.objects import FORMATS

_POINTER_BYTES: Final = 8192
_CONFIG_BYTES: Final = 1 << 20
_HEAD: Final = re.compile(rb"(?:ref:\s*(refs/[^\x00-\x20\x7f]+)|([0-9a-f]{40}(?:[0-9a-f]{24})?))\s*", re.ASCII)
_BORROWED: Final = ("refs", "packed-refs", "reftable", "shallow")


@dataclass(frozen=True, slots=True)
class Found:
    """A repository on this machine: where its work tree (None if bare), its own and its common git directory are."""

    work_tree: Path | None
    git_directory: Path
    common_directory: Path

    @property
    def root(self) -> Path:
        """The directory that people call the repository."""
        return self.work_tree or self.git_directory


def find_repository(path: Path) -> Found | None:
    """The repository that a directory is, or is inside of; None where there is none.

    Says who may not be trusted: a repository of another user is refused, as git does, unless the user's own git
    configuration lists it as safe.
    """
    path = Path(os.path.realpath(path))
    if not path.is_dir():
        raise NotFoundError(f"there is no directory {printable(str(path))}", hint="check the path")
    for directory in (path, *path.parents):
        found = _repository_at(directory, given=directory == path)
        if found is not None:
            _check_owner(found)
            return found
    return None


def _repository_at(directory: Path, *, given: bool) -> Found | None:
    marker = directory / ".git"
    try:
        mode = marker.lstat().st_mode
    except OSError:
        return Found(None, directory, directory) if _is_git_directory(directory) else None
    if stat.S_ISLNK(mode):
        # `git` follows it too: some tools keep the repository elsewhere.
        marker = Path(os.path.realpath(marker))
        mode = marker.stat().st_mode if marker.exists() else 0
    if stat.S_ISREG(mode):
        marker = _pointed_to(marker, b"gitdir: ")
    common = marker
    if (marker / "commondir").is_file():
        common = _pointed_to(marker / "commondir", b"")
    if not _is_git_directory(marker, common):
        if not given:
            return None  # as for git, what lies broken further up does not matter
        raise SourceError(
            f"{printable(str(directory))} has a .git that is not a repository",
            code="broken-repository",
            hint="repair or remove it; a worktree whose repository moved needs `git worktree repair`",
        )
    return Found(directory, marker, common)


def _pointed_to(file: Path, prefix: bytes) -> Path:
    """The directory that a `.git` or `commondir` file names."""
    content = _small_file(file, _POINTER_BYTES)
    if content is None or not content.startswith(prefix):
        return file / "missing"
    target = os.fsdecode(content.removeprefix(prefix).rstrip(b"\r\n"))
    return Path(os.path.realpath(file.parent / target))


def _is_git_directory(directory: Path, common: Path | None = None) -> bool:
    common = common or directory
    head = directory / "HEAD"
    return (head.is_file() or head.is_symlink()) and (common / "objects").is_dir() and (common / "refs").is_dir()


def _small_file(file: Path, limit: int) -> bytes | None:
    """The content of a regular file, None if it is not there, not regular, or longer than expected."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        content = stream.read(limit + 1)
    return content if len(content) <= limit else None


def _check_owner(found: Found) -> None:
    """Refuse the repository of another user, with the way to allow it."""
    trusted = {os.geteuid()}
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdigit():
        trusted.add(int(os.environ["SUDO_UID"]))
    places = (found.root, found.git_directory, found.common_directory)
    foreign = [place for place in places if place.stat().st_uid not in trusted]
    if not foreign or _is_listed_as_safe(found.root):
        return
    raise SourceError(
        f"{printable(str(foreign[0]))} belongs to another user, so git does not trust it (dubious ownership)",
        code="dubious-ownership",
        hint=f"if you trust it, run: git config --global --add safe.directory {printable(str(found.root))}",
    )


def _is_listed_as_safe(root: Path) -> bool:
    """Whether the user's or the system's git configuration lists a directory as safe. These files are only read."""
    home = os.path.expanduser("~")  # noqa: PTH111 - Path.home() raises where there is none
    xdg = os.environ.get("XDG_CONFIG_HOME") or str(Path(home) / ".config")
    files = [os.environ.get("GIT_CONFIG_SYSTEM") or "/etc/gitconfig"]
    own = os.environ.get("GIT_CONFIG_GLOBAL")
    files += [own] if own else [str(Path(xdg) / "git" / "config"), str(Path(home) / ".gitconfig")]
    safe = False
    for file in files:
        query = ("config", "--file", file, "--includes", "--type=path", "-z", "--get-all", "safe.directory")
        values = os.fsdecode(gitrun.run(query, extra={"HOME": home}, allowed=(0, 1, 128)))
        for value in values.split("\0")[:-1]:
            if not value:
                safe = False  # as in git, an empty value forgets those before it
            elif value in ("*", str(root)) or (value.endswith("/*") and str(root).startswith(value[:-1])):
                safe = True
    return safe


class GitView:
    """An open view of a repository; close it, or use it in a `with`."""

    def __init__(self, found: Found) -> None:
        self.found = found
        self.object_format, reference_format = _formats(found.common_directory)
        if reference_format == "reftable" and found.git_directory != found.common_directory:
            raise SourceError(
                "a linked worktree with reftable references cannot be read",
                code="unsupported-repository",
                hint="add the main work tree, and name the branch with --ref",
            )
        self.head = _head(found.git_directory)
        self._directory = Path(tempfile.mkdtemp(prefix="knowing-view-"))
        # Also where closing was forgotten; but a worker that was forked must not take it from its parent.
        self._removal = weakref.finalize(self, _remove, self._directory, os.getpid())
        try:
            self._build(reference_format)
        except BaseException:
            self.close()
            raise
        self.environment = {
            "GIT_DIR": str(self._directory),
            "GIT_OBJECT_DIRECTORY": str(found.common_directory / "objects"),
        }

    def _build(self, reference_format: str) -> None:
        (self._directory / "HEAD").write_bytes(self.head + b"\n")
        extensions = f"\tobjectFormat = {self.object_format}\n"
        if reference_format != "files":
            extensions += f"\trefStorage = {reference_format}\n"
        (self._directory / "config").write_text(
            "[core]\n\trepositoryFormatVersion = 1\n\tbare = true\n\tcommitGraph = false\n\tuseReplaceRefs = false\n"
            "\thooksPath = /dev/null\n\tfsmonitor = false\n\tuntrackedCache = false\n\tignoreCase = false\n"
            f"[extensions]\n{extensions}",
            "ascii",
        )
        shared = [path.name for path in self.found.git_directory.glob("sharedindex.*")]
        for name in _BORROWED:
            source = self.found.common_directory / name
            if source.is_file() or source.is_dir():  # never a pipe, on which git would wait
                (self._directory / name).symlink_to(source)
        for name in shared:
            (self._directory / name).symlink_to(self.found.git_directory / name)

    @property
    def branch(self) -> str:
        """The branch that is checked out, else empty."""
        name = self.head.removeprefix(b"ref: refs/heads/")
        return name.decode(errors="replace") if name != self.head else ""

    @property
    def is_shallow(self) -> bool:
        """Whether history ends before its first commit."""
        return (self._directory / "shallow").exists()

    def run(self, *arguments: str, directory: Path | None = None, extra: dict[str, str] | None = None) -> bytes:
        """The output of a git command in this view."""
        return gitrun.run(arguments, extra={**self.environment, **(extra or {})}, directory=directory)

    def close(self) -> None:
        """Remove the view. What it borrowed stays untouched: links are removed, not followed."""
        self._removal()


def _remove(directory: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)


def configuration(found: Found) -> list[tuple[str, str]]:
    """The settings in a repository's own file, keys in lower case; what it includes is not read."""
    file = found.common_directory / "config"
    if _small_file(file, _CONFIG_BYTES) is None:
        return []
    output = gitrun.run(("config", "--file", str(file), "--no-includes", "-z", "--list"))
    pairs = (item.partition("\n") for item in output.decode(errors="surrogateescape").split("\0") if item)
    return [(key, value) for key, _, value in pairs]


def _formats(common: Path) -> tuple[str, str]:
    """The object format and the reference format."""
    content = (_small_file(common / "config", _CONFIG_BYTES) or b"").lower()
    if b"objectformat" not in content and b"refstorage" not in content:
        return "sha1", "files"  # by far the most; spares a process
    settings = dict(configuration(Found(None, common, common)))
    object_format = settings.get("extensions.objectformat", "sha1").lower()
    reference_format = settings.get("extensions.refstorage", "files").lower()
    if object_format not in FORMATS or reference_format not in ("files", "reftable"):
        raise SourceError(
            "the repository has a format that is not known here",
            code="unsupported-repository",
            hint="objects are sha1 or sha256, references files or reftable",
        )
    return object_format, reference_format


def _head(git_directory: Path) -> bytes:
    file = git_directory / "HEAD"
    # It was a link to the branch's file long ago.
    linked = b"ref: " + os.fsencode(file.readlink()) if file.is_symlink() else None
    match = _HEAD.fullmatch(linked or _small_file(file, _POINTER_BYTES) or b"")
    if match is None:
        raise SourceError(
            f"{printable(str(file))} names neither a branch nor a commit",
            code="broken-repository",
            hint="`git checkout` of a branch repairs it",
        )
    return b"ref: " + match[1] if match[1] else match[2]
