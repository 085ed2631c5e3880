"""Summaries of many files, made by forked workers that end when we do.

A worker reads batches of files from one pipe and gives back their packed summaries through another. When its input
ends, for whatever reason, so does it.
"""

from __future__ import annotations

import gc
import os
import struct
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from io import BufferedReader, FileIO
from typing import Final

import msgpack

from knowingd.forked import Child, can_fork, end
from knowingd.index.languages import language_of

BATCH_BYTES: Final = 256 << 10
MANY_FILES: Final = 30  # below, workers cost more than they save
_LENGTH: Final = struct.Struct(">I")

Files = Iterable[tuple[str, bytes]]
Summaries = list[tuple[str, bytes]]


def summarized(files: Files, jobs: int, count: int) -> Iterator[tuple[str, bytes]]:
    """Each file's packed summary, in no particular order."""
    if jobs <= 1 or count < MANY_FILES or not can_fork():
        for path, content in files:
            yield path, _summary(path, content)
        return
    batches = _Batches(files, count // jobs + 1)
    workers: list[_Worker] = []
    try:
        workers.extend(_Worker() for _ in range(jobs))  # all of them before there are threads
        with ThreadPoolExecutor(jobs) as pool:
            for found in pool.map(partial(_feed, batches), workers):
                yield from found
    finally:
        for worker in workers:
            worker.inlet.close()
        end([worker.child for worker in workers])


def _summary(path: str, content: bytes) -> bytes:
    language = language_of(path)
    assert language is not None
    packed: bytes = msgpack.packb(language.summarize(path, content))
    return packed


class _Batches:
    """Batches of about equal size, handed out to whoever is free."""

    def __init__(self, files: Files, most: int) -> None:
        self._files = iter(files)
        self._most = min(most, MANY_FILES)
        self._lock = threading.Lock()

    def next(self) -> list[tuple[str, bytes]]:
        with self._lock:
            batch: list[tuple[str, bytes]] = []
            size = 0
            for path, content in self._files:
                batch.append((path, content))
                size += len(content)
                if size >= BATCH_BYTES or len(batch) >= self._most:
                    break
            return batch


class _Worker:
    """A child that summarizes what comes in."""

    def __init__(self) -> None:
        reading, writing = os.pipe()
        self.inlet = FileIO(writing, "w")
        self.child: Child[Summaries] = Child(partial(_answers, reading, writing))
        os.close(reading)

    def send(self, batch: list[tuple[str, bytes]]) -> None:
        """Give the worker files."""
        data = msgpack.packb(batch)
        rest = memoryview(_LENGTH.pack(len(data)) + data)
        while rest:
            rest = rest[self.inlet.write(rest) :]


def _feed(batches: _Batches, worker: _Worker) -> Summaries:
    """Keep one worker busy until there are no more batches."""
    found: Summaries = []
    while batch := batches.next():
        worker.send(batch)
        found += worker.child.result()
    return found


def _answers(reading: int, writing: int) -> Iterator[Summaries]:
    """What a worker gives, until its input ends."""
    os.close(writing)
    gc.freeze()
    with BufferedReader(FileIO(reading)) as inlet:
        while head := inlet.read(_LENGTH.size):
            (length,) = _LENGTH.unpack(head)
            yield [(path, _summary(path, content)) for path, content in msgpack.unpackb(inlet.read(length))]
            gc.collect()
