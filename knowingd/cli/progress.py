"""Progress for people: one line on a terminal that is written over, and nothing anywhere else."""

from __future__ import annotations

import sys
import threading
import time
from hashlib import sha256
from typing import Final

LATER: Final = {"reading": 2.0, "linking": 0.55}
"""How long what follows a stage takes, in times of all that was done by its end: as measured on three trees."""
EDGE: Final = 40
"""How long writing takes for each edge, in times of a hash: its rows, its maps and its share of everything else."""


class Progress:
    """Says what is going on, how fast, and for how long still."""

    def __init__(self, title: str, *, quiet: bool) -> None:
        self._title = title
        self._shown = not quiet and sys.stderr.isatty()
        self._stage = ""
        self._start = self._began = self._last = 0.0
        self._expected = 0.0  # when the last stage should end, which says nothing of itself
        self._hash = _time_of_a_hash() if self._shown else 0.0  # before the caches are full of other things
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def __call__(self, stage: str, done: int, of: int) -> None:
        """Report a stage; `of` is 0 where nobody knows how much there is."""
        if not self._shown:
            return
        now = time.monotonic()
        if stage != self._stage:
            self._begin(stage, now, of)
        if stage == "writing":
            return  # it says nothing of itself until it is done
        if now - self._last < 0.1 and done < of:
            return
        self._last = now
        text = f"{self._title}: {stage}"
        if of:
            text += f" {100 * done // of}%"
            spent = now - self._began
            if done and spent > 0.5:
                rate = done / spent
                unit = f"{rate / 1e6:.1f} MB/s" if stage == "reading" else f"{rate:,.0f}/s"
                here = max(0.0, (of - done) / rate)
                later = LATER.get(stage, 0.0) * (now - self._start + here)
                text += f", {unit}, {here + later:.0f} s left"
        self._write(text)

    def _begin(self, stage: str, now: float, of: int) -> None:
        if not self._start:
            self._start = now
        self._stage = stage
        self._began, self._last = now, 0.0
        if stage == "writing":
            self._expected = now + of * EDGE * self._hash
            threading.Thread(target=self._count_down, args=(stage,), daemon=True).start()

    def _count_down(self, stage: str) -> None:
        while self._stage == stage:
            left = self._expected - time.monotonic()
            self._write(f"{self._title}: {stage}" + (f", {left:.0f} s left" if left >= 1 else ", a moment left"))
            if self._ended.wait(0.5):
                return

    def _write(self, text: str) -> None:
        with self._lock:
            if not self._ended.is_set():
                sys.stderr.write("\r\x1b[K" + text[:110])
                sys.stderr.flush()

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            self._write("")
            self._ended.set()


def _time_of_a_hash() -> float:
    """How fast this machine is now, in seconds: the best of a few looks, each of which something may interrupt."""
    looks = []
    for _ in range(60):
        start = time.perf_counter()
        for number in range(250):
            sha256(number.to_bytes(64, "big")).digest()
        looks.append((time.perf_counter() - start) / 250)
    return min(looks)
