"""Progress for people: one line on a terminal that is written over, and nothing anywhere else."""

from __future__ import annotations

import sys
import threading
import time
from typing import Final

LATER: Final = {"reading": 2.6, "linking": 0.9}
"""How long what follows a stage takes, in times of all that was done by its end: as measured on three trees."""


class Progress:
    """Says what is going on, how fast, and for how long still."""

    def __init__(self, title: str, *, quiet: bool) -> None:
        self._title = title
        self._shown = not quiet and sys.stderr.isatty()
        self._stage = ""
        self._start = self._began = self._last = 0.0
        self._expected = 0.0  # when the last stage should end, which says nothing of itself
        self._lock = threading.Lock()
        self._ended = threading.Event()

    def __call__(self, stage: str, done: int, of: int) -> None:
        """Report a stage; `of` is 0 where nobody knows how much there is."""
        if not self._shown:
            return
        now = time.monotonic()
        if stage != self._stage:
            self._begin(stage, now)
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

    def _begin(self, stage: str, now: float) -> None:
        if not self._start:
            self._start = now
        before, self._stage = self._stage, stage
        self._began, self._last = now, 0.0
        if before == "linking" and now - self._start > 1.0:
            self._expected = now + LATER["linking"] * (now - self._start)
            threading.Thread(target=self._count_down, args=(stage,), daemon=True).start()

    def _count_down(self, stage: str) -> None:
        while not self._ended.wait(0.5) and self._stage == stage:
            left = self._expected - time.monotonic()
            self._write(f"{self._title}: {stage}" + (f", {left:.0f} s left" if left >= 1 else ", a moment left"))

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
