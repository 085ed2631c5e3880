"""What is not worth extracting: vendored, generated, binary, huge. Small tables, the same on every machine.

Decided by the path: vendored and generated names. By the size: huge files. By the first bytes: pointers of Git LFS,
binary files, generated files that say so. A tree that wants one of its vendored or generated paths extracted after all
says so in its `.knowingignore` (`!vendor/`). A change of these tables is a change of `interface.RULES`.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from knowing_protocol.vocabulary import Coverage

from knowingd.source.paths import was_cut

MAXIMUM_FILE_BYTES: Final = 4 << 20
"""Larger files are not read. Source that people wrote is smaller; the largest that matter have under 2 MB."""
HEAD_BYTES: Final = 8000
"""How much of a file `classify` looks at; git looks at as much to tell binary files."""

VENDORED_DIRECTORIES: Final = frozenset(
    (
        "vendor",
        "vendored",
        "_vendor",
        "_vendored",
        "third_party",
        "third-party",
        "thirdparty",
        "3rdparty",
        "node_modules",
        "bower_components",
        "jspm_packages",
        "site-packages",
        "dist-packages",
        "Godeps",
        "Pods",
        "Carthage",
        ".venv",
        ".tox",
        ".nox",
        ".yarn",
    )
)
"""Directories, at any depth, that hold the code of others."""

_VENDORED_ENDINGS: Final = tuple(f"{sign}min.{kind}" for sign in ".-" for kind in ("js", "mjs", "cjs", "css"))
_JQUERY: Final = re.compile(r"jquery(?:-[0-9.]+)?(?:\.slim)?\.js", re.ASCII)
"""Libraries that are copied into a tree as one file."""

_LOCK_FILES: Final = frozenset(
    (
        "package-lock.json",
        "npm-shrinkwrap.json",
        "yarn.lock",
        "pnpm-lock.yaml",
        "bun.lock",
        "bun.lockb",
        "deno.lock",
        "poetry.lock",
        "Pipfile.lock",
        "uv.lock",
        "pdm.lock",
        "pixi.lock",
        "conda-lock.yml",
        "Cargo.lock",
        "Gemfile.lock",
        "composer.lock",
        "go.sum",
        "go.work.sum",
        "mix.lock",
        "pubspec.lock",
        "packages.lock.json",
        "gradle.lockfile",
        "Podfile.lock",
        "flake.lock",
    )
)
_GENERATED_ENDINGS: Final = (
    *("_pb2.py", "_pb2.pyi", "_pb2_grpc.py", "_pb2_grpc.pyi"),
    *(".pb.go", ".pb.gw.go", ".pb.validate.go", ".pb.cc", ".pb.c", ".pb.h", ".pb.swift", ".pb.dart"),
    *("_pb.js", "_pb.ts", "_pb.d.ts", ".gen.go", ".g.dart", ".freezed.dart", ".gr.dart"),
    *(".designer.cs", ".Designer.cs", ".g.cs", ".g.i.cs"),
    *(".js.map", ".mjs.map", ".cjs.map", ".ts.map", ".css.map"),
)
_GENERATED_STARTS: Final = ("zz_generated.", "zz_generated_")
"""Names that only generators give."""

_LINES: Final = 40
# Without "do not edit" a file is often an interface that others call, generated once: that is extracted.
# A program that writes such a line holds it as a string; the comment sign at the start tells the two apart.
_COMMENT: Final = rb"^[ \t]*(?:\#|//|/\*|\*|--|;|%|<!--|\(\*|\"\"\"|'|@rem\b)"
_GENERATED_LINE: Final = re.compile(
    _COMMENT
    + rb"""[^\n]*?(?:
        (?<![\w@])@generated\b(?!\s*(?:by\s+hand|manually))
      | \b(?:auto-?|automatically[ ])?generated\b[^\n]*\bdo\ not\ (?:edit|modify|change)\b
      | \bdo\ not\ (?:edit|modify|change)\b[^\n]*\b(?:auto-?|automatically[ ])?generated\b
      | <auto-?generated\b
      | \bautomatically\ generated\ by\ SWIG\b
    )""",
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
_LFS_POINTER: Final = (b"version https://git-lfs.github.com/spec/", b"version https://hawser.github.com/spec/")
_MINIFIABLE: Final = (".js", ".mjs", ".cjs", ".css")
_MINIFIED_LINE: Final = 2000


def classify_path(path: str, size: int, ignored: bool | None = None) -> Coverage | None:
    """The reason that a path and a size give, and what the tree's ignore files say: True, False for `!`, or nothing."""
    if ignored:
        return Coverage.IGNORED
    if ignored is None:
        directory, _, name = path.rpartition("/")
        if _is_vendored(directory) or path.endswith(_VENDORED_ENDINGS) or _is_vendored_name(name):
            return Coverage.VENDORED
        if name in _LOCK_FILES or path.endswith(_GENERATED_ENDINGS) or name.startswith(_GENERATED_STARTS):
            return Coverage.GENERATED
    return Coverage.TOO_LARGE if size > MAXIMUM_FILE_BYTES or was_cut(path) else None


def classify(path: str, head: bytes, size: int) -> Coverage | None:
    """The reason that the first bytes of a file give; more than `HEAD_BYTES` of them are not looked at."""
    head = head[:HEAD_BYTES]
    if size < 1024 and head.startswith(_LFS_POINTER):
        return Coverage.LFS_POINTER
    if b"\0" in head:
        return Coverage.BINARY
    if (b"enerated" in head or b"ENERATED" in head) and _GENERATED_LINE.search(_first_lines(head)):
        return Coverage.GENERATED
    if path.endswith(_MINIFIABLE) and size > _MINIFIED_LINE and _is_minified(head):
        return Coverage.GENERATED
    return None


@functools.lru_cache(maxsize=4096)
def _is_vendored(directory: str) -> bool:
    return not VENDORED_DIRECTORIES.isdisjoint(directory.split("/"))


def _is_vendored_name(name: str) -> bool:
    return name.startswith("jquery") and _JQUERY.fullmatch(name) is not None


def _first_lines(head: bytes) -> bytes:
    return b"\n".join(head.split(b"\n", _LINES)[:_LINES])


def _is_minified(head: bytes) -> bool:
    """Whether lines are longer than anybody writes; one long line among short ones is data, not a minifier's work."""
    return len(head) > _MINIFIED_LINE and len(head) > _MINIFIED_LINE * (head.count(b"\n") + 1)
