"""Summaries of many files, made by worker processes that end when we do.

A worker is this module run as a program: it reads batches of files from its standard input and writes their packed
summaries to its standard output. When its input ends, for whatever reason, so does it.
"""

from __future__ import annotations

import gc
import struct
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Final

import msgpack

from knowingd.errors import StoreError
from knowingd.index.languages import language_of

BATCH_BYTES: Final = 256 << 10
MANY_FILES: Final = 100  # below, starting processes costs more than they save
_LENGTH: Final = struct.Struct(">I")

Files = Iterable[tuple[str, bytes]]


def summarized(files: Files, jobs: int, count: int) -> Iterator[tuple[str, bytes]]:
    """Each file's packed summary, in no particular order."""
    if jobs <= 1 or count < MANY_FILES:
        for path, content in files:
            yield path, _summary(path, content)
        return
    batches = _Batches(files)
    with ThreadPoolExecutor(jobs) as pool:
        results = [pool.submit(_feed, batches) for _ in range(jobs)]
        for result in results:
            yield from result.result()


def _summary(path: str, content: bytes) -> bytes:
    language = language_of(path)
    assert language is not None
    packed: bytes = msgpack.packb(language.summarize(path, content))
    return packed


class _Batches:
    """Batches of about equal size, handed out to whoever is free."""

    def __init__(self, files: Files) -> None:
        self._files = iter(files)
        self._lock = threading.Lock()

    def next(self) -> list[tuple[str, bytes]]:
        with self._lock:
            batch: list[tuple[str, bytes]] = []
            size = 0
            for path, content in self._files:
                batch.append((path, content))
                size += len(content)
                if size >= BATCH_BYTES:
                    break
            return batch


def _feed(batches: _Batches) -> list[tuple[str, bytes]]:
    """Run one worker until there are no more batches."""
    found: list[tuple[str, bytes]] = []
    worker = subprocess.Popen(
        [sys.executable, "-m", "knowingd.index.workers"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        while batch := batches.next():
            _send(worker.stdin, msgpack.packb(batch))
            answer = _receive(worker.stdout)
            if answer is None:
                raise StoreError("a worker process died while it read files", hint="try again with --jobs 1")
            found += ((path, summary) for path, summary in msgpack.unpackb(answer))
    finally:
        worker.stdin.close()
        worker.stdout.close()
        worker.wait()
    return found


def _send(stream: IO[bytes], data: bytes) -> None:
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes | None:
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = stream.read(length)
    return data if len(data) == length else None


def main() -> None:
    """Serve batches until the input ends."""
    gc.freeze()
    gc.disable()  # what a batch leaves behind is looked at once, not again and again while it is read
    while (data := _receive(sys.stdin.buffer)) is not None:
        answer = [(path, _summary(path, content)) for path, content in msgpack.unpackb(data)]
        _send(sys.stdout.buffer, msgpack.packb(answer))
        gc.collect()


if __name__ == "__main__":
    main()
