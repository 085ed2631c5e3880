"""The frozen choice of packages, pairs and tools that the measurement runs on."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PINS_FILE = HERE / "pins.toml"
ENVIRONMENT_FILE = HERE / "environment.txt"
DEFAULT_CACHE = HERE / ".cache"


@dataclass(frozen=True, slots=True)
class Pins:
    """Exact versions, and which package is asked about its calls into which other."""

    scip_python: str
    packages: dict[str, str]
    pairs: tuple[tuple[str, str], ...]
    left_out: dict[str, tuple[str, ...]]

    def asked(self, package: str, path: str) -> bool:
        """False for an import path whose calls are not measured, though others may call into it."""
        return not any(path == item or path.startswith(item + "/") for item in self.left_out.get(package, ()))


def normalised(name: str) -> str:
    """A distribution's name in the spelling that compares equal."""
    return re.sub(r"[-_.]+", "-", name).lower()


def load(path: Path = PINS_FILE) -> Pins:
    """Read the pins; a pair that names an unpinned package is an error."""
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    packages = {normalised(name): str(version) for name, version in data["packages"].items()}
    pairs = tuple((normalised(caller), normalised(callee)) for caller, callee in data["pairs"])
    unknown = {name for pair in pairs for name in pair} - packages.keys()
    if unknown:
        raise ValueError(f"pairs name packages without a version: {', '.join(sorted(unknown))}")
    left_out = {normalised(name): tuple(paths) for name, paths in data.get("left_out", {}).items()}
    return Pins(str(data["scip_python"]), packages, pairs, left_out)


def environment(path: Path = ENVIRONMENT_FILE) -> dict[str, str]:
    """The exact versions that the oracle's virtual environment holds, dependencies included."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        requirement = line.split("#", 1)[0].strip()
        if requirement:
            name, version = requirement.split("==")
            found[normalised(name)] = version.strip()
    return found
