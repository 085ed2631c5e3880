"""Type annotations as small trees: `("name", text)`, `("of", tree, trees)`, `("or", trees)`, `("none",)`, `("any",)`.

The text is that of the source; what the names mean is for the linker to say. Whatever is not understood is `any`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

_TOKEN: Final = re.compile(
    r"""\s*(?:([^\W\d]\w*(?:\s*\.\s*[^\W\d]\w*)*)|(\.\.\.)|([rRbBuU]?(?:"[^"\n]*"|'[^'\n]*'))|([\[\](),|*=&-])|(\S))"""
)
_MAX_NESTING: Final = 20
ANY: Final = ("any",)
NONE: Final = ("none",)
Tree = tuple[Any, ...]


@lru_cache(maxsize=20_000)
def parse_annotation(text: str) -> Tree:
    """The tree of an annotation."""
    return _parse(text, 0)


def _parse(text: str, depth: int) -> Tree:
    if depth > 3 or len(text) > 2000:
        return ANY
    tokens = _TOKEN.findall(text)
    parser = _Parser(tokens, depth)
    tree = parser.union(0)
    return tree if parser.position >= len(tokens) else ANY


class _Parser:
    """One pass over the tokens, without going back."""

    def __init__(self, tokens: list[tuple[str, ...]], quoted: int) -> None:
        self.tokens = tokens
        self.position = 0
        self.quoted = quoted

    def _mark(self) -> str:
        return self.tokens[self.position][3] if self.position < len(self.tokens) else ""

    def union(self, nesting: int) -> Tree:
        """`a | b | c`."""
        if nesting > _MAX_NESTING:
            self.position = len(self.tokens) + 1
            return ANY
        found = [self._one(nesting)]
        while self._mark() == "|":
            self.position += 1
            found.append(self._one(nesting))
        return found[0] if len(found) == 1 else ("or", tuple(found))

    def _one(self, nesting: int) -> Tree:
        if self.position >= len(self.tokens):
            return ANY
        name, dots, string, mark, _ = self.tokens[self.position]
        self.position += 1
        if mark == "*":
            return self._one(nesting)
        if mark in {"[", "("}:
            return ("list", self._list(nesting, "]" if mark == "[" else ")"))
        tree: Tree = ANY
        if name == "None":
            tree = NONE
        elif name:
            tree = ("name", re.sub(r"\s", "", name))
        elif string:
            tree = _parse(string.lstrip("rRuU")[1:-1], self.quoted + 1) if string[0] not in "bB" else ANY
        elif dots:
            tree = ("dots",)
        while self._mark() == "[":
            self.position += 1
            tree = ("of", tree, self._list(nesting, "]"))
        return tree

    def _list(self, nesting: int, closing: str) -> tuple[Tree, ...]:
        found: list[Tree] = []
        while self.position < len(self.tokens):
            if self._mark() == closing:
                self.position += 1
                return tuple(found)
            if self._mark() == ",":
                self.position += 1
            else:
                before = self.position
                found.append(self.union(nesting + 1))
                if self._mark() not in {",", closing}:
                    self.position = max(self.position, before) + 1  # something like a literal: step over it
        self.position = len(self.tokens) + 1
        return tuple(found)
