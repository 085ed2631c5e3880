"""Our side of the comparison: every pinned package registered as a repository of its own, then exported.

Run it as `PYTHONPATH=tests python -m quality.ours [--cache DIR] [--knowing PROGRAM]`. It uses the command line as any
user would, in a data directory of its own; nothing of the packages is installed. All packages are registered before
the first export, because an export shows what is resolved across the registered repositories.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from quality import fetch
from quality.pins import DEFAULT_CACHE, load

_GIT = ("git", "-c", "user.name=quality", "-c", "user.email=quality@invalid", "-c", "commit.gpgsign=false",
        "-c", "core.hooksPath=/dev/null", "-c", "core.autocrlf=false")  # fmt: skip
_DATES = {"GIT_AUTHOR_DATE": "2000-01-01T00:00:00Z", "GIT_COMMITTER_DATE": "2000-01-01T00:00:00Z"}


def repository(source: Path, target: Path) -> Path:
    """A git repository with one commit that holds the published sources, ignored files too."""
    if not (target / ".git").exists():
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target, symlinks=True)
        environment = {**os.environ, **_DATES}
        for arguments in (("init", "-q"), ("add", "-A", "-f"), ("commit", "-q", "-m", "as published")):
            subprocess.run([*_GIT, *arguments], cwd=target, env=environment, check=True)
    return target


def export_all(cache: fetch.Cache, packages: list[str], program: str) -> None:
    """Register every package, then write one export each to the cache's `ours` directory."""
    home, exports = cache.root / "home", cache.root / "ours"
    shutil.rmtree(home, ignore_errors=True)
    exports.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "KNOWING_HOME": str(home)}
    paths = {name: repository(cache.source(name), cache.root / "repos" / name) for name in packages}
    start = time.monotonic()
    subprocess.run([program, "add", "-q", *map(str, paths.values())], env=environment, check=True)
    print(f"indexed {len(paths)} packages in {time.monotonic() - start:.0f} s", file=sys.stderr)
    for name, path in paths.items():
        output = exports / f"{name}.json"
        subprocess.run(
            [program, "export", str(path), "--format", "json", "-o", str(output)], env=environment, check=True
        )


def main(arguments: list[str] | None = None) -> int:
    """Register and export all pinned packages."""
    parser = argparse.ArgumentParser(description="export our graph of every pinned package")
    parser.add_argument("packages", nargs="*")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE)
    parser.add_argument("--knowing", default=str(Path(sys.executable).parent / "knowing"))
    options = parser.parse_args(arguments)
    pins, cache = load(), fetch.Cache(options.cache.resolve())
    names = options.packages or list(pins.packages)
    for name in names:
        fetch.source(cache, name, pins)
    export_all(cache, names, options.knowing)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
