"""How fast sources are, as ratios to git alone in the same run: `python bench_source.py REPOSITORY`.

The rivals are `git ls-tree -r -z --long` for listing, `git cat-file --batch --buffer` with its output thrown away for
reading, and `git status` for the working view. Best of five each, alternating, so that noise hits both alike.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from knowingd.source import open_source, working_view

ROUNDS = 5


def best(*jobs: Callable[[], object]) -> list[float]:
    seconds = [float("inf")] * len(jobs)
    for _ in range(ROUNDS):
        for number, job in enumerate(jobs):
            started = time.perf_counter()
            job()
            seconds[number] = min(seconds[number], time.perf_counter() - started)
    return seconds


def main(path: Path) -> None:
    def git(*arguments: str, stdin: bytes = b"") -> None:
        subprocess.run(["git", *arguments], cwd=path, input=stdin, stdout=subprocess.DEVNULL, check=True)

    with open_source(path) as source, working_view(path) as view:
        entries = [entry for entry in source.entries() if entry.reason is None]
        requests = "".join(f"{entry.content_id}\n" for entry in entries).encode()
        size = sum(entry.size for entry in entries)

        def read() -> None:
            for _ in source.read(entries):
                pass

        listing, git_listing = best(source.entries, lambda: git("ls-tree", "-r", "-z", "--long", "HEAD"))
        reading, git_reading = best(read, lambda: git("cat-file", "--batch", "--buffer", stdin=requests))
        looking, git_looking = best(view.entries, lambda: git("status", "--porcelain"))
    print(f"{len(entries)} files, {size / 1e6:.1f} MB")
    print(f"list  {listing * 1000:7.0f} ms, git {git_listing * 1000:7.0f} ms, ratio {listing / git_listing:.2f}")
    print(
        f"read  {reading * 1000:7.0f} ms, git {git_reading * 1000:7.0f} ms, ratio {reading / git_reading:.2f}, "
        f"{size / 1e6 / reading:.0f} MB/s"
    )
    print(f"view  {looking * 1000:7.0f} ms, git {git_looking * 1000:7.0f} ms, ratio {looking / git_looking:.2f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
