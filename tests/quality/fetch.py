"""Brings the oracle and its material here: sources as published, one virtual environment, scip-python.

Everything is kept under one cache directory and made once. The network is used through pip and npm alone, as the
machine has configured them.
"""

import csv
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from quality.pins import ENVIRONMENT_FILE, Pins, normalised


@dataclass(frozen=True, slots=True)
class Cache:
    """Where things lie."""

    root: Path

    def source(self, package: str) -> Path:
        """The unpacked sources as published, a repository of its own."""
        return self.root / "src" / package

    def index(self, package: str) -> Path:
        """The oracle's index of the importable sources."""
        return self.root / "scip" / f"{package}.scip"

    def truth(self, package: str) -> Path:
        """The calls that the oracle knows."""
        return self.root / "truth" / f"{package}.json"

    @property
    def environment(self) -> Path:
        """The virtual environment with every dependency in it."""
        return self.root / "env"

    @property
    def tool(self) -> Path:
        """The directory that npm installs scip-python into."""
        return self.root / "npm"


def _run(*command: str | Path) -> None:
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)


def environment(cache: Cache) -> Path:
    """A virtual environment with the exact versions of environment.txt."""
    done = cache.environment / "installed.txt"
    wanted = ENVIRONMENT_FILE.read_text(encoding="utf-8")
    if not done.exists() or done.read_text(encoding="utf-8") != wanted:
        _run(sys.executable, "-m", "venv", "--clear", cache.environment)
        pip = (cache.environment / "bin" / "python", "-m", "pip", "--disable-pip-version-check")
        _run(*pip, "install", "--quiet", "--no-deps", "-r", ENVIRONMENT_FILE)
        done.write_text(wanted, encoding="utf-8")
    return cache.environment


def tool(cache: Cache, version: str) -> Path:
    """The scip-python program of exactly this version."""
    program = cache.tool / version / "node_modules" / ".bin" / "scip-python"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        _run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", cache.tool / version,
             f"@sourcegraph/scip-python@{version}")  # fmt: skip
    return program


def _download(package: str, version: str, directory: Path) -> Path:
    """The sdist; the wheel where an sdist cannot be had."""
    have = sorted(directory.glob("*")) if directory.exists() else []
    if have:
        return have[0]
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps")
    staging = directory.with_suffix(".part")
    shutil.rmtree(staging, ignore_errors=True)
    try:
        _run(*pip, "--no-binary", package, f"{package}=={version}", "-d", staging)
    except subprocess.CalledProcessError:
        _run(*pip, "--only-binary", package, f"{package}=={version}", "-d", staging)
    staging.rename(directory)
    return next(iter(sorted(directory.glob("*"))))


def _unpack(archive: Path, target: Path) -> None:
    """Unpack and leave out the one directory that an sdist wraps everything in."""
    staging = target.with_name(target.name + ".part")
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    if archive.suffix in {".whl", ".zip"}:
        with zipfile.ZipFile(archive) as bundle:
            bundle.extractall(staging)
    else:
        with tarfile.open(archive) as bundle:
            bundle.extractall(staging, filter="data")
    inner = list(staging.iterdir())
    if len(inner) == 1 and inner[0].is_dir() and archive.suffix != ".whl":
        inner[0].rename(target)
        staging.rmdir()
    else:
        staging.rename(target)


def source(cache: Cache, package: str, pins: Pins) -> Path:
    """The package's sources as published."""
    target = cache.source(package)
    if not target.exists():
        sdists = cache.root / "sdist"
        sdists.mkdir(parents=True, exist_ok=True)
        _unpack(_download(package, pins.packages[package], sdists / package), target)
    return target


def installed_files(environment_directory: Path, package: str) -> list[str]:
    """The Python files that installing the package puts on the import path."""
    for record in sorted(environment_directory.glob("lib/python*/site-packages/*.dist-info/RECORD")):
        if normalised(record.parent.name.removesuffix(".dist-info").rsplit("-", 1)[0]) != package:
            continue
        with record.open(encoding="utf-8", newline="") as lines:
            paths = [row[0] for row in csv.reader(lines) if row]
        return [path for path in paths if path.endswith((".py", ".pyi")) and not path.startswith("..")]
    raise FileNotFoundError(f"{package} is not installed in {environment_directory}: make the environment again")


def importable(installed: list[str], published: list[str]) -> dict[str, str]:
    """Installed path => published path, for what is in both. Each top-level name has one root, found by majority."""
    known = set(installed)
    prefixes: dict[str, Counter[str]] = {}
    for path in published:
        parts = path.split("/")
        for cut in range(len(parts)):
            if "/".join(parts[cut:]) in known:
                prefix = "".join(part + "/" for part in parts[:cut])
                prefixes.setdefault(parts[cut], Counter())[prefix] += 1
    have = set(published)
    found = {}
    for path in installed:
        roots = prefixes.get(path.split("/")[0])
        if roots:
            root = min(roots, key=lambda prefix: (-roots[prefix], len(prefix), prefix))
            if root + path in have:
                found[path] = root + path
    return found


def layout(cache: Cache, package: str) -> dict[str, str]:
    """Import path => path in the published sources, of the package's importable files."""
    root = cache.source(package)
    published = [
        path.relative_to(root).as_posix()
        for path in sorted(root.rglob("*.py*"))
        if path.suffix in {".py", ".pyi"} and path.is_file()
    ]
    return importable(installed_files(cache.environment, package), published)
