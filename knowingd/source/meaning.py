"""What a path means: the repository it is the root of, the one it is inside of, or a plain directory.

A directory inside of a repository means the whole repository, unless HEAD has nothing in it: a directory that merely
lies in somebody's work tree, such as one beneath a home directory under version control, is a plain one.
"""

from __future__ import annotations

import os
from pathlib import Path

from knowingd.source.errors import printable
from knowingd.source.gitsource import holds_files
from knowingd.source.gitview import Found, find_repository


def understood(path: Path) -> tuple[Found | None, tuple[str, ...]]:
    """The repository that a path means, None for a plain directory, and what to tell the user."""
    found = find_repository(path)
    if found is None or found.work_tree is None:
        return found, ()
    inside = Path(os.path.realpath(path)).relative_to(found.work_tree)
    if inside.parts[:1] in ((), (".git",)):
        return found, ()
    shown, around = printable(str(path)), printable(str(found.root))
    if holds_files(found, os.fsencode(inside)):
        return found, (f"{shown} is inside of the repository {around}, which is read as a whole",)
    return None, (f"{shown} is read as a plain directory: the repository around it, {around}, has none of its files",)
