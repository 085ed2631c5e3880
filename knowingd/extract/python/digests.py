"""The keys under which other files look into a file, each with a digest of what they find there.

A digest covers everything that an answer can depend on inside of this file: the binding itself, and through it the
local variables and results that it is made of. It does not cover lines, columns, or what a function merely does.
"""

from __future__ import annotations

from typing import Any

from knowing_protocol.hashing import tagged

from knowingd.extract.interface import Summary
from knowingd.extract.python.modules import is_source, package_of
from knowingd.extract.python.tree import (
    ANNOTATION,
    BASES,
    DECORATORS,
    FLAGS,
    KIND,
    PARENT,
    QUALIFIED,
    RETURNS,
    TYPES,
    YIELDS,
)


def keys_of(path: str, summary: Summary) -> dict[str, bytes]:
    """The keys of a file. Manifests have none of their own: they act through the roots of the tree."""
    if not is_source(path) or "scopes" not in summary:
        return {}
    return _Digests(path, summary).keys()


class _Digests:
    """The digests of one summary."""

    def __init__(self, path: str, summary: Summary) -> None:
        self.package = package_of(path)
        self.summary = summary
        self.scopes = summary["scopes"]
        flat = summary["table"]
        self.table: list[tuple[int, str]] = list(zip(flat[::2], flat[1::2], strict=True))
        self.names = summary["names"]
        self.labels = self._labels()
        self._texts: dict[int, tuple[str, tuple[tuple[int, str], ...]]] = {}

    def _labels(self) -> list[str]:
        """A name for every scope that does not change when others come and go."""
        labels: list[str] = []
        counts: dict[str, int] = {}
        for scope in self.scopes:
            label = (
                scope[QUALIFIED] if scope[KIND] in "cf" else f"{labels[scope[PARENT]]}~" if scope[PARENT] >= 0 else ""
            )
            counts[label] = counts.get(label, 0) + 1
            labels.append(f"{label}#{counts[label]}" if counts[label] > 1 or label.endswith("~") else label)
        return labels

    def keys(self) -> dict[str, bytes]:
        """All keys with their digests."""
        found: dict[str, list[str]] = {}
        for number, scope in enumerate(self.scopes):
            if scope[KIND] in "mc":
                place = scope[QUALIFIED] if scope[KIND] == "c" else ""
                for name, bindings in self.names.get(str(number), {}).items():
                    self._enter(found, place, name, number, [self._shown(one) for one in bindings])
                for name, set_in in self.summary["attributes"].get(str(number), {}).items():
                    parts = [part for scope_number, *one in set_in for part in self._parts(scope_number, one)]
                    self._enter(found, place, name, number, parts)
            if scope[KIND] == "c":
                self._enter(found, scope[QUALIFIED], "<bases>", number, [self._closed(one) for one in scope[BASES]])
                self._enter(found, scope[QUALIFIED], "<bases>", number, scope[TYPES])
                fields = [name for name, one in self.names.get(str(number), {}).items() if one[0][0] == ":"]
                self._enter(found, scope[QUALIFIED], "<fields>", number, fields)
            elif scope[KIND] == "f":
                self._enter(found, scope[QUALIFIED], "()", number, self._result(scope, number))
                self._enter(found, scope[QUALIFIED], "<parameters>", number, [repr(sorted(scope[TYPES].items()))])
        stars = [[level, module] for _, level, module, name, *_ in self.summary["imports"] if name == "*"]
        exported = sorted(self.names.get("0", {})) if self.summary["all"] is None else self.summary["all"]
        self._enter(found, "", "*", 0, [repr((stars, self.summary["all"] is None, exported, self._public()))])
        return {f"{self.package}\0{key}": tagged("key", *parts)[:12] for key, parts in found.items()}

    def _public(self) -> list[str]:
        return sorted(self.names.get("0", {}))

    def _enter(self, found: dict[str, list[str]], place: str, name: str, number: int, parts: list[str]) -> None:
        found.setdefault(f"{place}\0{name}", []).append(repr((self.labels[number], parts)))

    def _parts(self, scope: int, binding: list[Any]) -> list[str]:
        return [self.labels[scope], self._shown(binding)]

    def _result(self, scope: list[Any], number: int) -> list[str]:
        parts = [repr((scope[KIND], scope[FLAGS], scope[ANNOTATION])), repr([name for name, _ in scope[DECORATORS]])]
        parts += [self._closed(one) for _, one in scope[DECORATORS]]
        for bindings in self.names.get(str(number), {}).values():
            parts += [repr(one[2]) for one in bindings if one[0] in "sk"]
        if scope[ANNOTATION] is None:
            parts += [self._closed(one) for one in scope[RETURNS]] + ["yields"]
            parts += [self._closed(one) for one in scope[YIELDS]]
        return parts

    def _shown(self, binding: list[Any]) -> str:
        """A binding with everything that it refers to in this file."""
        kind = binding[0]
        if kind == "=":
            return repr(("=", self._closed(binding[1]), binding[2:]))
        if kind == ":":
            value = self._closed(binding[4]) if binding[4] >= 0 else ""
            return repr((":", binding[1], self.labels[binding[2]], binding[3], value, binding[5]))
        if kind == "p":
            return repr(
                (kind, self.labels[binding[1]], binding[2], self._closed(binding[3]) if binding[3] >= 0 else "")
            )
        if kind in "dcsk":
            return repr((kind, self.labels[binding[1]], binding[2:]))
        return repr(binding)

    def _closed(self, entry: int) -> str:
        """An entry, and all local variables on which it depends, whatever the circles they go in."""
        seen: dict[tuple[int, str], str] = {}
        text, todo = self._text(entry)
        pending = list(todo)
        while pending:
            key = pending.pop()
            if key in seen:
                continue
            scope, name = key
            parts = []
            for binding in self.names.get(str(scope), {}).get(name, ()):
                shown = list(binding)
                if binding[0] == "=":
                    shown[1], more = self._text(binding[1])
                    pending += more
                elif binding[0] == ":":
                    shown[2] = self.labels[binding[2]]
                    if binding[4] >= 0:
                        shown[4], more = self._text(binding[4])
                        pending += more
                elif binding[0] in "dcskp":
                    shown[1] = self.labels[binding[1]]
                    if binding[0] == "p" and binding[3] >= 0:
                        shown[3], more = self._text(binding[3])
                        pending += more
                parts.append(repr(shown))
            seen[key] = repr(parts)
        closure = sorted((self.labels[scope], name, shown) for (scope, name), shown in seen.items())
        return repr((text, closure))

    def _text(self, entry: int) -> tuple[str, tuple[tuple[int, str], ...]]:
        """An entry without numbers that edits elsewhere could shift, and the local names in it."""
        found = self._texts.get(entry)
        if found is not None:
            return found
        steps: list[str] = []
        needs: list[tuple[int, str]] = []
        number = entry
        while number >= 0:
            number, step = self.table[number]
            steps.append(self._step(step, needs, head=number < 0))
        found = self._texts[entry] = ("".join(reversed(steps)), tuple(needs))
        return found

    def _step(self, step: str, needs: list[tuple[int, str]], *, head: bool) -> str:
        mark, rest = step[0], step[1:]
        if head and mark in "SCUK":
            return f"{mark}<{self.labels[int(rest.partition(':')[0])]}>"
        if head and mark == "L":
            where, _, name = rest.partition(":")
            needs.append((int(where), name.partition("@")[0]))
            return f"L<{self.labels[int(where)]}>{name}"
        numbers = rest if head and mark in "|[{(\\" else step[2:] if step.startswith("(=") else ""
        if numbers:
            parts = []
            for one in numbers.split(";"):
                text, more = self._text(int(one))
                needs += more
                parts.append(text)
            return f"{mark}<{';'.join(parts)}>"
        return step
