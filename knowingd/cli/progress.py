"""Progress for people: one line on a terminal that is written over, and nothing anywhere else."""

from __future__ import annotations

import sys
import time


class Progress:
    """Says what is going on, how fast, and for how long still."""

    def __init__(self, title: str, *, quiet: bool) -> None:
        self._title = title
        self._shown = not quiet and sys.stderr.isatty()
        self._stage = ""
        self._began = self._last = 0.0

    def __call__(self, stage: str, done: int, of: int) -> None:
        """Report a stage; `of` is 0 where nobody knows how much there is."""
        if not self._shown:
            return
        now = time.monotonic()
        if stage != self._stage:
            self._stage, self._began, self._last = stage, now, 0.0
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
                text += f", {unit}, {max(0.0, (of - done) / rate):.0f} s left"
        sys.stderr.write("\r\x1b[K" + text[:110])
        sys.stderr.flush()

    def clear(self) -> None:
        """Take the line away."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
