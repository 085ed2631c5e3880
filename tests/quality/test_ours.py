"""Registering the published sources as repositories."""

import subprocess
from pathlib import Path

from quality.ours import repository


def git(target: Path, *arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=target, check=True, capture_output=True, text=True)
    return done.stdout.split()


def test_a_repository_holds_all_published_files_and_is_the_same_each_time(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "pkg").mkdir(parents=True)
    (source / ".gitignore").write_text("_version.py\n", encoding="utf-8")
    (source / "pkg" / "_version.py").write_text("v = 1\r\n", encoding="utf-8", newline="")
    first, second = (repository(source, tmp_path / name) for name in ("first", "second"))
    assert git(first, "ls-tree", "-r", "--name-only", "HEAD") == [".gitignore", "pkg/_version.py"]
    assert git(first, "rev-parse", "HEAD") == git(second, "rev-parse", "HEAD")
    assert repository(source, first) == first
