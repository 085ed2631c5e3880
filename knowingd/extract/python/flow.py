"""Which of the bindings of a name can reach a place where it is read.

Simple flow over the blocks of a scope: the latest binding before the place counts, and earlier ones as long as those
after them may not have happened. Bindings later in a loop around the place count too. Where this is not exact it
includes too much, never too little, except for exceptions that leave a `try` in its middle.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import Final

from tree_sitter import Node

from knowingd.extract.limits import MAX_BINDINGS
from knowingd.extract.python.scopes import Binding
from knowingd.extract.python.syntax import Regions

_position: Final = attrgetter("position")


class Flow:
    """The blocks of a file. Made when the first name with several bindings is met."""

    def __init__(self, captures: dict[str, list[Node]], size: int) -> None:
        with_blocks = {(node.start_byte, node.end_byte) for node in captures.get("with", ())}
        # A `with` body runs whenever what is around it does: it is no block of its own.
        spans = [(node.start_byte, node.end_byte) for node in captures.get("block", ())]
        self.spans = [(0, size)] + [span for span in spans if span not in with_blocks]
        self.blocks = Regions(((start, end, index) for index, (start, end) in enumerate(self.spans) if index), 0)
        self.loops = [(node.start_byte, node.end_byte) for node in captures.get("loop", ())]
        self.loop_regions = Regions(((start, end, index) for index, (start, end) in enumerate(self.loops)), -1)
        ifs = [(node.start_byte, node.end_byte) for node in captures.get("if", ())]
        self.ifs = Regions(((start, end, index) for index, (start, end) in enumerate(ifs)), -1)
        self.branches: dict[int, int] = {}  # of an `if`, how many
        self.owners: dict[int, int] = {}  # the `if` of a branch, by its start
        for node in captures.get("branch", ()):
            owner = self.ifs.at(node.start_byte - 1)
            self.owners[node.start_byte] = owner
            self.branches[owner] = self.branches.get(owner, 0) + 1
        self.complete = {self.owners[node.start_byte] for node in captures.get("else", ())}
        self.exits = {
            self.blocks.at(node.start_byte) for kind in ("return", "raise", "jump") for node in captures.get(kind, ())
        }

    def reaching(self, bindings: list[Binding], position: int) -> list[int] | None:
        """The indexes of the bindings that may hold at a position of the same scope; None if they are too many."""
        before = bisect_right(bindings, position, key=_position)
        found = self._coming_around(bindings, before, position)
        done: dict[int, set[int]] = {}
        for index in range(before - 1, -1, -1):
            if len(found) > MAX_BINDINGS:
                return None
            binding = bindings[index]
            if binding.kind == "n":
                if position < binding.ends:
                    found.append(index)
                    break
                continue
            block = self.blocks.at(max(binding.position - 1, 0))
            start, end = self.spans[block]
            if binding.position == 0 or start <= position < end:
                found.append(index)
                break
            if block in self.exits:
                continue
            found.append(index)
            owner = self.owners.get(start, -1)
            if owner in self.complete:
                branches = done.setdefault(owner, set())
                branches.add(block)
                if len(branches) >= self.branches[owner]:
                    break
        return sorted(found)

    def _coming_around(self, bindings: list[Binding], after: int, position: int) -> list[int]:
        """Bindings after a position, in a loop around both."""
        found: list[int] = []
        for index in range(after, min(len(bindings), after + MAX_BINDINGS)):
            loop = self.loop_regions.at(bindings[index].position - 1)
            if loop >= 0 and self.loops[loop][0] <= position < self.loops[loop][1]:
                found.append(index)
        return found
