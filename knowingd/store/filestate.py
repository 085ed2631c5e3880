"""What the files of a database look like from outside: a cheap way to see that nobody wrote to it since.

Every commit changes the database or its journal, so that files which look the same hold the same. But clocks of file
systems tick slowly: what was changed shortly before a look may change again and look the same. So a look counts only
if the files had been at rest for a while when it was taken.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final, NamedTuple

SETTLED_AFTER: Final = 2_000_000_000
"""Nanoseconds; the coarsest clock of a file system in use ticks every two seconds."""


class FileState(NamedTuple):
    """How the files of a database look, when they were looked at, and when they changed last, in nanoseconds."""

    text: str
    at: int
    changed: int

    def is_as_at(self, text: str, at: int) -> bool:
        """Whether nothing was written since an earlier look."""
        return self.text == text and self.changed + SETTLED_AFTER < at


def file_state(path: Path) -> FileState:
    """Look at a database and its journal."""
    at = time.time_ns()
    parts = []
    newest = 0
    for name in (str(path), f"{path}-wal"):
        try:
            found = os.stat(name)  # noqa: PTH116 - a thousand of them a question
        except FileNotFoundError:
            continue
        if name.endswith("-wal") and not found.st_size:
            continue  # whoever reads makes an empty journal, and takes it away again
        parts.append(f"{found.st_ino}:{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}")
        newest = max(newest, found.st_mtime_ns, found.st_ctime_ns)
    return FileState(" ".join(parts), at, newest)
