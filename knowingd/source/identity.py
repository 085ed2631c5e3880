"""What a repository is called.

With a remote (`origin`, else the only one) it is that remote's URL, canonical. A remote that is a path of this machine
counts as none. Without one it is `local/<directory>-<id>`: the name of the directory that holds the repository (the
main one for linked worktrees; without `.git` for bare ones) and the first 12 digits of the first commit, found by
following first parents from HEAD. So it stays the same when commits, branches and merges come, on every copy with that
directory name, and two repositories called `app` are told apart. A plain directory has no first commit and is
`local/<directory>`: where that is taken, the user has to give a name. Whatever the user gives wins. No name holds a
path or user info.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from knowing_protocol.errors import InvalidNameError
from knowing_protocol.urls import canonical_url, local_name

from knowingd.source.errors import SourceError
from knowingd.source.gitview import Found, GitView, configuration
from knowingd.source.meaning import understood

_DIGITS: Final = 12
_REMOTE: Final = re.compile(r"remote\.(.+)\.url", re.DOTALL)
_LOCAL_REMOTE: Final = re.compile(r"(?i:[/\\~]|\.{1,2}(?:[/\\]|\Z)|file:|[a-z]:[/\\])")
_UNFIT: Final = re.compile(r"[\x00-\x20\x7f-\x9f/\\\ud800-\udfff]+")
_HINT: Final = "give it a name with --url"


def repository_url(path: Path, *, given: str | None = None) -> str:
    """The canonical URL of the repository or plain directory at a path, or of what the user gave instead."""
    if given is not None:
        return given_name(given)
    found, _ = understood(path)
    if found is None:
        return _local(Path(os.path.realpath(path)).name, "")
    return url_of(found)


def url_of(found: Found) -> str:
    """The canonical URL of a repository that was found."""
    remote = _remote(found)
    if remote is not None:
        try:
            return canonical_url(remote)
        except InvalidNameError as error:
            # The message of the kernel never quotes the text, so no password gets out.
            raise InvalidNameError(f"the URL of the remote does not name a repository: {error}", hint=_HINT) from None
    directory = found.common_directory
    name = directory.parent.name if directory.name == ".git" else directory.name
    if found.work_tree is not None and found.git_directory == directory and directory.name != ".git":
        name = found.work_tree.name  # a submodule, or a repository kept apart from its work tree
    return _local(name.removesuffix(".git"), _first_commit(found)[:_DIGITS])


def given_name(text: str) -> str:
    """The canonical URL that a user gave: a URL, or a plain name, which becomes a local one."""
    return canonical_url(text) if "/" in text or ":" in text else local_name(text)


def _remote(found: Found) -> str | None:
    remotes: dict[str, str] = {}
    for key, value in configuration(found):
        match = _REMOTE.fullmatch(key)
        if match is not None and value:
            remotes.setdefault(match[1], value)  # the first is the one that git fetches from
    url = remotes.get("origin")
    if url is None and len(remotes) == 1:
        (url,) = remotes.values()
    return None if url is None or _LOCAL_REMOTE.match(url) else url


def _first_commit(found: Found) -> str:
    view = GitView(found)
    try:
        if view.is_shallow:
            raise SourceError(
                "a shallow repository without a remote has no stable name: its first commit is not there",
                code="no-name",
                hint=f"{_HINT}, or run `git fetch --unshallow`",
            )
        try:
            roots = view.run("rev-list", "--first-parent", "--max-parents=0", "HEAD").split()
        except SourceError:
            roots = []
    finally:
        view.close()
    if not roots:
        raise SourceError(
            "a repository without a remote and without commits has no stable name", code="no-name", hint=_HINT
        )
    return roots[-1].decode()


def _local(directory: str, digits: str) -> str:
    name = _UNFIT.sub("-", directory).strip("-.") or "directory"
    return local_name(f"{name}-{digits}" if digits else name)
