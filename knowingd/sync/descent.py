"""Finding what differs without a common base: both sides answer in turn, sixteen ways a step.

The asking side sends what it has below some prefixes (sixteen fingerprints, or all of them where they are few); the
other answers with what it has below those that differ, one step deeper, or with the records themselves. All maps and
many prefixes travel in one request, so the number of round trips is the depth of the deepest difference.

    top      [fingerprints of the roots of all maps, [kind, data] of the edges of each graph]
    ask      [layer, map, package, edge type, bits, prefix, kind, data]
    kinds    children: fingerprints of the 16 subtrees · leaves: of all leaves · want: of the leaves whose records
             are asked for
    answer   to children: [[child, kind, data] …] of those that differ; to leaves and want: [gone, packages];
             records come beside the answers, as packs
    data     of children and leaves: fingerprints; of branches: [[package, edge type, fingerprint, kind, data] …]

`gone` has a bit for each fingerprint that was sent and is not there. Packages are listed instead of sent: their
branches are spaces of their own. What an answer claims is believed until the root is compared, and no longer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from knowing_protocol.errors import MalformedError
from knowing_protocol.pack import MIDDLE, pack_records
from knowing_protocol.records import Edge, Records

from knowingd.store.codes import EDGE_TYPES, LAYERS
from knowingd.sync.spaces import (
    BRANCH,
    EVERYTHING,
    FINGERPRINT,
    MAPS,
    NOTHING,
    WAYS,
    Prefix,
    Side,
    Space,
    together,
)

CHILDREN, LEAVES, WANT, BRANCHES = range(4)
FEW: Final = 32
"""Up to so many leaves are listed instead of divided further."""
VERY_FEW: Final = 4
"""Up to so many branches are listed together with what is below them."""
MANY: Final = 4096
"""How many keys one answer sends the records of; what is left is asked for again."""
MAX_ASKS: Final = 1024
MAX_BITS: Final = 64
_SPACES: Final = (*MAPS, BRANCH)


class Ask(NamedTuple):
    """One question of an exchange."""

    space: Space
    prefix: Prefix
    kind: int
    data: bytes

    def plain(self) -> list[Any]:
        """As it travels."""
        layer, name, package, edge_type = self.space
        return [layer, _SPACES.index(name), package, edge_type + 1, *self.prefix, self.kind, self.data]


def ask_from(value: Any) -> Ask:
    """A question from outside."""
    if not isinstance(value, list) or len(value) != 8:
        raise _malformed()
    layer, name, package, edge_type, bits, prefix, kind, data = value
    numbers = (layer, name, edge_type, bits, prefix, kind)
    if any(isinstance(one, bool) or not isinstance(one, int) or one < 0 for one in numbers):
        raise _malformed()
    if not isinstance(package, str) or not isinstance(data, bytes) or kind > WANT:
        raise _malformed()
    if layer >= len(LAYERS) or name >= len(_SPACES) or edge_type > len(EDGE_TYPES):
        raise _malformed()
    if bits > MAX_BITS or prefix >> bits or (_SPACES[name] == BRANCH) != (edge_type > 0):
        raise _malformed()
    if kind == CHILDREN and len(data) != WAYS * FINGERPRINT:
        raise _malformed()
    return Ask(Space(layer, _SPACES[name], package, edge_type - 1), Prefix(bits, prefix), kind, data)


def _malformed() -> MalformedError:
    return MalformedError("a question or an answer of a descent is not well formed", code="descent")


def _split(data: Any, width: int = FINGERPRINT) -> list[bytes]:
    if not isinstance(data, bytes) or len(data) % width:
        raise _malformed()
    return [data[start : start + width] for start in range(0, len(data), width)]


def _rows(value: Any, size: int) -> list[list[Any]]:
    if not isinstance(value, list) or any(not isinstance(one, list) or len(one) != size for one in value):
        raise _malformed()
    return value


def _bits(flags: Iterable[bool]) -> bytes:
    text = "".join("1" if flag else "0" for flag in flags)
    return int(text or "0", 2).to_bytes((len(text) + 7) // 8, "big")


def _flags(data: Any, count: int) -> list[bool]:
    if not isinstance(data, bytes) or len(data) != (count + 7) // 8:
        raise _malformed()
    number = int.from_bytes(data, "big")
    if number >> count:
        raise _malformed()
    return [bool(number >> place & 1) for place in range(count - 1, -1, -1)]


# The side that answers


class Answered(NamedTuple):
    """Answers in the order of the questions, None where there was no room, and a pack of records for each graph."""

    answers: list[Any]
    packs: list[Any]


class Answering:
    """One request's worth of answers."""

    def __init__(self, side: Side) -> None:
        self.side = side
        self.room = MANY
        self.records = [Records() for _ in LAYERS]
        self.known: list[set[Edge]] = [set() for _ in LAYERS]

    def answer(self, asks: list[Ask]) -> Answered:
        """Answer as many as there is room for."""
        answers = [self._one(ask) if self.room > 0 else None for ask in asks[:MAX_ASKS]]
        return Answered(answers, [self._pack(layer) for layer in LAYERS])

    def _pack(self, layer: int) -> Any:
        records, known = self.records[layer], self.known[layer]
        if records == Records():
            return None
        return pack_records(records, known, MIDDLE)  # the other side may have nodes that are not here

    def _one(self, ask: Ask) -> Any:
        if ask.kind == CHILDREN:
            return self._children(ask)
        return self._leaves(ask)

    def top(self) -> list[Any]:
        """Where a descent begins: the roots of all maps, and the first step into the edges."""
        roots = b"".join(self.side.fingerprint(self.side.tree(space).root) for space in all_spaces())
        return [roots, *(self._map(Space(layer, "edges")) for layer in LAYERS)]

    def _map(self, space: Space) -> list[Any]:
        """The first step into the edges: their branches where they are few."""
        branches = list(self.side.branches(space.layer))
        if len(branches) > FEW:
            return self._below(space, EVERYTHING)
        listed = []
        for branch, root in branches:
            below = self._below(branch, EVERYTHING) if len(branches) <= VERY_FEW else [BRANCHES, b""]
            listed.append([branch.package, branch.type, root, *below])
        return [BRANCHES, listed]

    def _children(self, ask: Ask) -> Any:
        mine = _split(self.side.children(ask.space, ask.prefix))
        theirs = _split(ask.data)
        found = []
        for number, fingerprint in enumerate(mine):
            if fingerprint != theirs[number]:
                found.append([number, *self._below(ask.space, ask.prefix.child(number))])
        return found

    def _below(self, space: Space, prefix: Prefix) -> list[Any]:
        """What is below a prefix: all of it where that is little, sixteen fingerprints otherwise."""
        leaves = self.side.leaves(space, prefix, FEW + 1)
        if len(leaves) <= FEW or prefix.bits >= MAX_BITS:
            return [LEAVES, b"".join(leaves)]
        return [CHILDREN, self.side.children(space, prefix)]

    def _leaves(self, ask: Ask) -> Any:
        theirs = _split(ask.data)
        mine = self.side.leaves(ask.space, ask.prefix, MANY + len(theirs) + 1)
        if ask.kind == WANT:
            wanted = [mine[one] for one in theirs if one in mine]
            return [_bits(one not in mine for one in theirs), self._send(ask.space, wanted)]
        wanted = [key for one, key in mine.items() if one not in set(theirs)]
        if len(wanted) * _weight(ask.space) > MANY and ask.prefix.bits < MAX_BITS:
            return [CHILDREN, self.side.children(ask.space, ask.prefix)]
        return [_bits(one not in mine for one in theirs), self._send(ask.space, wanted)]

    def _send(self, space: Space, keys: list[bytes]) -> list[Any]:
        """Records go into the pack; packages are listed with their branches."""
        self.room -= len(keys) * _weight(space)
        if space.map == "edges":
            listed: dict[str, tuple[list[int], list[bytes]]] = {}
            for branch, fingerprint in self.side.branches(space.layer, self.side.package_ids(space.layer, keys)):
                types, roots = listed.setdefault(branch.package, ([], []))
                types.append(branch.type)
                roots.append(fingerprint)
            return [[package, bytes(types), b"".join(roots)] for package, (types, roots) in listed.items()]
        if keys:
            records, edges = self.side.records(space, keys)
            together(self.records[space.layer], records)
            self.known[space.layer] |= edges
        return []


def _weight(space: Space) -> int:
    """How many keys' worth of room the records of a key take; a file is all that is in it."""
    return 64 if space.map == "files" else 1


def all_spaces() -> list[Space]:
    """The named maps of both graphs, in the order in which their roots are compared."""
    return [Space(layer, name) for layer in LAYERS for name in MAPS]


# The side that asks


class Found(NamedTuple):
    """What a descent led to: packs of records that are missing here, and keys of what is here and not there."""

    packs: list[list[Any]]
    gone: dict[Space, set[bytes]]
    gone_branches: set[Space]


class Descent:
    """Asks until everything that differs is known. `next` gives questions, `take` takes their answers."""

    def __init__(self, side: Side, top: Any) -> None:
        """`top` is what the other side begins with."""
        self.side = side
        self.packs: list[list[Any]] = [[] for _ in LAYERS]
        self.gone: dict[Space, set[bytes]] = {}
        self.gone_branches: set[Space] = set()
        self._gone_packages: list[set[str]] = [set() for _ in LAYERS]
        self._listed: list[set[str]] = [set() for _ in LAYERS]
        self._asked: list[Ask] = []
        self._queue: list[Ask] = []
        self._begin(top)

    def _begin(self, top: Any) -> None:
        if not isinstance(top, list) or len(top) != 1 + len(LAYERS):
            raise _malformed()
        theirs = _split(top[0])
        if len(theirs) != len(all_spaces()):
            raise _malformed()
        for space, root in zip(all_spaces(), theirs, strict=True):
            if self.side.fingerprint(self.side.tree(space).root) == root:
                continue
            if space.map != "edges":
                self._open(space, EVERYTHING)
                continue
            ((kind, data),) = _rows([top[1 + space.layer]], 2)
            if kind == BRANCHES:
                self._branches(space.layer, data)
            else:
                self._compare(space, EVERYTHING, kind, data)

    def _open(self, space: Space, prefix: Prefix) -> None:
        leaves = self.side.leaves(space, prefix, FEW + 1)
        if len(leaves) <= FEW or prefix.bits >= MAX_BITS:
            self._queue.append(Ask(space, prefix, LEAVES, b"".join(leaves)))
        else:
            self._queue.append(Ask(space, prefix, CHILDREN, self.side.children(space, prefix)))

    def next(self) -> list[Ask]:
        """The questions of the next round trip; none when everything is known."""
        self._asked, self._queue = self._queue[:MAX_ASKS], self._queue[MAX_ASKS:]
        return self._asked

    def take(self, answers: Any, packs: Any) -> None:
        """The answers to the questions that were given last."""
        if not isinstance(answers, list) or len(answers) != len(self._asked):
            raise _malformed()
        if not isinstance(packs, list) or len(packs) != len(LAYERS):
            raise _malformed()
        if self._asked and all(answer is None for answer in answers):
            raise MalformedError("the other side answers none of the questions", code="descent")
        for layer, pack in enumerate(packs):
            if pack is not None:
                self.packs[layer].append(pack)
        for ask, answer in zip(self._asked, answers, strict=True):
            if answer is None:
                self._queue.append(ask)
            elif ask.kind == CHILDREN:
                self._children(ask.space, ask.prefix, answer)
            else:
                self._leaves(ask, answer)

    def _children(self, space: Space, prefix: Prefix, answer: Any) -> None:
        for child, kind, data in _rows(answer, 3):
            if type(child) is not int or not 0 <= child < WAYS:
                raise _malformed()
            self._compare(space, prefix.child(child), kind, data)

    def _compare(self, space: Space, prefix: Prefix, kind: Any, data: Any) -> None:
        """What the other side has below a prefix, against what is here."""
        theirs = _split(data)
        if kind == LEAVES:
            mine = self.side.leaves(space, prefix)
            self._lose(space, [key for one, key in mine.items() if one not in set(theirs)])
            wanted = [one for one in theirs if one not in mine]
            if wanted:
                self._queue.append(Ask(space, prefix, WANT, b"".join(wanted)))
        elif kind == CHILDREN and len(theirs) == WAYS and prefix.bits < MAX_BITS:
            for number, fingerprint in enumerate(_split(self.side.children(space, prefix))):
                below = prefix.child(number)
                if theirs[number] == NOTHING:
                    self._lose(space, self.side.leaves(space, below).values())
                elif theirs[number] != fingerprint:
                    self._open(space, below)
        else:
            raise _malformed()

    def _leaves(self, ask: Ask, answer: Any) -> None:
        if not isinstance(answer, list) or len(answer) != 2:
            raise _malformed()
        if answer[0] == CHILDREN and ask.kind == LEAVES:
            self._compare(ask.space, ask.prefix, CHILDREN, answer[1])
            return
        sent = _split(ask.data)
        gone = [one for one, flag in zip(sent, _flags(answer[0], len(sent)), strict=True) if flag]
        if ask.kind == WANT and gone:
            raise MalformedError("the other side does not have what it listed", code="descent")
        if gone:
            mine = self.side.leaves(ask.space, ask.prefix)
            self._lose(ask.space, [mine[one] for one in gone])
        if ask.space.map == "edges":
            self._packages(ask.space.layer, answer[1])

    def _lose(self, space: Space, keys: Iterable[bytes]) -> None:
        if space.map == "edges":
            names = {number: name for name, number in self.side.packages.items()}
            ids = self.side.package_ids(space.layer, list(keys))
            self._gone_packages[space.layer].update(names[one] for one in ids)
        else:
            self.gone.setdefault(space, set()).update(keys)

    def _packages(self, layer: int, listed: Any) -> None:
        """The branches of packages that differ."""
        for package, types, roots in _rows(listed, 3):
            if not isinstance(package, str):
                raise _malformed()
            if len(_split(types, 1)) != len(_split(roots)):
                raise _malformed()
            theirs = dict(zip(_split(types, 1), _split(roots), strict=True))
            self._listed[layer].add(package)
            number = self.side.packages.get(package)
            mine = dict(self.side.branches(layer, [number])) if number is not None else {}
            for edge_type, root in theirs.items():
                branch = Space(layer, BRANCH, package, edge_type[0])
                if branch.type >= len(EDGE_TYPES):
                    raise _malformed()
                if mine.pop(branch, None) != root:
                    self._open(branch, EVERYTHING)
            self.gone_branches.update(mine)

    def _branches(self, layer: int, listed: Any) -> None:
        """All branches of the other side, perhaps with what is below them."""
        mine = dict(self.side.branches(layer))
        for package, edge_type, root, kind, data in _rows(listed, 5):
            if not isinstance(package, str) or type(edge_type) is not int or not 0 <= edge_type < len(EDGE_TYPES):
                raise _malformed()
            branch = Space(layer, BRANCH, package, edge_type)
            if mine.pop(branch, None) == root:
                continue
            if kind == BRANCHES:
                self._open(branch, EVERYTHING)
            else:
                self._compare(branch, EVERYTHING, kind, data)
        self.gone_branches.update(mine)

    def found(self) -> Found:
        """Everything that differs, once there is nothing left to ask."""
        for layer in LAYERS:
            for package in self._gone_packages[layer] - self._listed[layer]:
                number = self.side.packages[package]
                self.gone_branches.update(branch for branch, _ in self.side.branches(layer, [number]))
        return Found(self.packs, self.gone, self.gone_branches)
