"""The incremental law on real code: this repository's own, under seeded edits of the kinds that people make."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from knowing_protocol.graph import Graph

from extract.helpers import REPO, plain
from knowingd.extract.memory import index_tree, update

ROOT = Path(__file__).resolve().parents[2]


def _tree() -> dict[str, bytes]:
    found = {"pyproject.toml": (ROOT / "pyproject.toml").read_bytes()}
    for path in sorted((ROOT / "protocol" / "knowing_protocol").rglob("*.py")):
        found[path.relative_to(ROOT).as_posix()] = path.read_bytes()
    return found


def _edit(files: dict[str, bytes], choose: random.Random) -> str:
    """One edit, in place; what it was, for the message of a failure."""
    path = choose.choice(sorted(path for path in files if path.endswith(".py")))
    text = files[path].decode()
    kind = choose.choice(
        ["delete", "rename", "move", "imports", "base", "result", "body", "name", "reexport", "restore"]
    )
    if kind == "delete":
        del files[path]
    elif kind == "rename":
        files[path.removesuffix(".py") + "_new.py"] = files.pop(path)
    elif kind == "move":
        found = re.search(r"\n\n\ndef \w+\(.*?(?=\n\n\n|\Z)", text, re.DOTALL)
        other = choose.choice(sorted(path for path in files if path.endswith(".py")))
        if found:
            files[path] = text.replace(found[0], "").encode()
            files[other] += found[0].encode() + b"\n"
    elif kind == "imports":
        files[path] = re.sub(r"(?m)^from (\S+) import (\w+)$", r"import \1 as \2", text).encode()
    elif kind == "base":
        files[path] = re.sub(r"(?m)^class (\w+)(\(.*\))?:$", r"class \1(Other, NodeId):", text, count=1).encode()
    elif kind == "result":
        files[path] = re.sub(r"-> [\w.]+:", "-> Records:", text, count=2).encode()
    elif kind == "body":
        files[path] = re.sub(r"(?m)^    return (.*)$", r"    print(\1)\n    return \1", text, count=1).encode()
    elif kind == "name":
        names = re.findall(r"(?m)^def (\w+)", text)
        if names:
            files[path] = re.sub(rf"\b{names[0]}\b", "renamed", text).encode()
    elif kind == "reexport":
        package = path.rpartition("/")[0] + "/__init__.py"
        module = path.rpartition("/")[2].removesuffix(".py")
        files[package] = files.get(package, b"") + f"\nfrom .{module} import *\n".encode()
    else:
        files.update({path: content for path, content in _tree().items() if path not in files})
    return f"{kind} {path}"


@pytest.mark.parametrize("seed", [0, 1, 302])  # 302: a star import that comes back to where it started
def test_updating_equals_indexing_from_nothing_on_this_repository(seed: int) -> None:
    choose = random.Random(seed)
    files = _tree()
    _, state = index_tree(REPO, files)
    for _ in range(2):
        edits = [_edit(files, choose) for _ in range(choose.randint(1, 3))]
        updated = update(state, files)
        assert plain(updated) == plain(index_tree(REPO, files)[0]), edits
        Graph(REPO, updated)
