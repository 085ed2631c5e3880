"""Locks between processes that die with their process: `flock` on a file that says who holds it."""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from knowingd.errors import BusyError

DEFAULT_WAIT = 30.0


@contextmanager
def exclusive(path: Path, what: str, wait: float = DEFAULT_WAIT) -> Iterator[None]:
    """Hold the lock on `what`; after `wait` seconds give up and say who holds it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not inherited by children: a worker that outlives us must not keep the lock.
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        deadline = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise BusyError(
                        f"{what} is being written by {_holder(handle)}",
                        hint="wait for it to end, or wait longer with --wait SECONDS",
                    ) from None
                time.sleep(0.05)
        command = " ".join(Path(word).name for word in sys.argv[:2])
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()} ({command})".encode(), 0)
        yield
    finally:
        os.close(handle)


def _holder(handle: int) -> str:
    return os.pread(handle, 200, 0).decode(errors="replace") or "another process"
