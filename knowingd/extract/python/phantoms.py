"""Phantoms: the nodes of names that leave the repository, from paths as the evaluator spells them."""

from __future__ import annotations

import re
from typing import Any, Final

from knowing_protocol.errors import InvalidNameError
from knowing_protocol.hashing import NodeId, external, external_hash
from knowing_protocol.paths import CALL, WILDCARD, Head, Path, format_path, parse_path

_MISPLACED: Final = re.compile(r"^[.(]|\.$|\.[.(]|\)\w")


class Phantoms:
    """The phantoms of a tree, made once each."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[bytes, NodeId] | None] = {}

    def of(self, path: str) -> tuple[bytes, NodeId] | None:
        """The phantom of a path, or None if it cannot be written."""
        if path not in self._known:
            try:
                text = _canonical(path)
                self._known[path] = (external_hash(text), external(text))
            except InvalidNameError:
                self._known[path] = None
        return self._known[path]


def _canonical(path: str) -> str:
    """The one spelling of a path. Plain names need no escapes; the rest goes through the kernel's own writer."""
    text = f"python://{path}"
    if path.isascii() and path.replace(".", "").replace("()", "").replace("_", "").isalnum():
        if len(text) >= 4000 or path.count(".") + path.count("()") > 60 or _MISPLACED.search(path) is not None:
            parse_path(text)  # says what is wrong with it
        return text
    if path.startswith("{"):
        inside, _, tail = path[1:].partition("}")
        heads = tuple(Head(*_split(one)) for one in inside.split("|"))
        return format_path(Path("python", heads, _steps(tail)))
    module, steps = _split(path)
    return format_path(Path("python", (Head(module),), steps))


def _split(path: str) -> tuple[str, tuple[Any, ...]]:
    module, marker, rest = path.partition(".")
    if "(" in module:
        module, rest, marker = path.partition("(")[0], path[path.index("(") :], ""
    return module, _steps(marker + rest)


def _steps(text: str) -> tuple[Any, ...]:
    pieces = text.replace("()", ".()").split(".")[1:]
    return tuple(CALL if one == "()" else WILDCARD if one == "*" else one for one in pieces)
