"""Proofs about a crit-bit map: the map itself with everything left out that was not asked about.

A proof is a pruned tree in preorder: `00 key value` a leaf, `01 depth` an inner node followed by its two sides,
`02 hash` a subtree left out, and `03` alone the empty map. One shape serves one key or many, present or absent: the
verifier hashes the tree, compares it with a root it already believes, and then walks to any key it likes. Whether a
key is present is the end of that walk and of nothing else, so no root, honest or not, yields two answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from knowing_protocol import critbit
from knowing_protocol.critbit import KEY_BITS, Loader, MerkleMap, Node
from knowing_protocol.errors import RejectedError

MAX_PROOF_BYTES = 8 * 1024 * 1024

_LEAF, _INNER, _HASH, _EMPTY = 0, 1, 2, 3


def prove(node: Node | None, keys: Iterable[bytes], load: Loader = critbit.no_loader) -> bytes:
    """The proof for any number of keys; paths that they share are written once."""
    if node is None:
        return bytes([_EMPTY])
    out: list[bytes] = []
    stack: list[tuple[Node, list[bytes]]] = [(node, sorted(set(keys)))]
    while stack:
        node, wanted = stack.pop()
        if not wanted:
            out += (b"\2", node[0])
            continue
        if len(node) == 2:
            node = load(node)
        if len(node) == 3:
            out += (b"\0", node[1], node[2])
            continue
        depth = node[1]
        out.append(bytes((_INNER, depth)))
        if len(wanted) == 1:
            side = critbit.bit(wanted[0], depth)
            stack += ((node[3], wanted if side else []), (node[2], [] if side else wanted))
        else:
            right = [key for key in wanted if critbit.bit(key, depth)]
            left = [key for key in wanted if not critbit.bit(key, depth)] if len(right) < len(wanted) else []
            stack += ((node[3], right), (node[2], left))
    return b"".join(out)


def prove_map(tree: MerkleMap, keys: Iterable[bytes]) -> bytes:
    """`prove` for a map that knows its own loader."""
    return prove(tree.node, keys, tree.load)


class ProvenMap:
    """The part of a map that a proof shows: looked up like a map, and loud about what it does not show."""

    __slots__ = ("_asked", "_leaves", "_reached", "node", "what")

    def __init__(self, proof: bytes, level: int, root: bytes, what: str) -> None:
        """Decode and hash a proof; `what` names the map in reasons."""
        self.what = what
        self.node, self._leaves = _decode(proof, level, what)
        self._reached: set[bytes] = set()
        self._asked = False
        found = self.node[0] if self.node is not None else critbit.empty_hash(level)
        if found != root:
            raise RejectedError(
                f"{what}-root", f"the proof of the {what} map hashes to {found.hex()}, not to its root {root.hex()}"
            )

    def get(self, key: bytes) -> bytes | None:
        """The value that the map has for a key, None where it provably has none."""
        self._asked = True
        node = self.node
        if node is None:
            return None
        while len(node) == 4:
            node = node[3] if critbit.bit(key, node[1]) else node[2]
        if len(node) == 2:
            raise RejectedError(
                f"{self.what}-not-shown", f"the proof of the {self.what} map leaves out a key it must show"
            )
        self._reached.add(node[1])
        return node[2] if node[1] == key else None

    @property
    def is_used(self) -> bool:
        """Whether it was asked, and shows no more than the answers needed."""
        return self._asked and len(self._reached) == self._leaves

    @property
    def is_bare(self) -> bool:
        """Whether it shows nothing but its root."""
        return self.node is not None and len(self.node) == 2


def _decode(proof: bytes, level: int, what: str) -> tuple[Node | None, int]:
    """The pruned tree, hashed from its leaves, and how many it shows; an inner node that shows no side counts as one.

    Every rule of the shape is checked before the root is.
    """
    size = len(proof)
    if size > MAX_PROOF_BYTES:
        raise RejectedError(f"{what}-too-large", f"the proof of the {what} map has {size} bytes")
    if size == 0:
        raise RejectedError(f"{what}-empty-proof", f"the proof of the {what} map is empty")
    if proof[0] == _EMPTY:
        if size != 1:
            raise RejectedError(f"{what}-trailing", f"the proof of the {what} map goes on after its end")
        return None, 0
    shown = 0
    leaf_prefix = bytes((0, level))
    inner_prefix = bytes((1, level))
    position = 0
    # One row per open inner node: its depth, and its finished left side once the walk is on its right.
    depths: list[int] = []
    lefts: list[Node | None] = []
    while True:
        if position >= size:
            raise RejectedError(f"{what}-truncated", f"the proof of the {what} map ends early")
        kind = proof[position]
        if kind == _INNER:
            if position + 1 >= size:
                raise RejectedError(f"{what}-truncated", f"the proof of the {what} map ends inside a node")
            depth = proof[position + 1]
            if len(depths) >= KEY_BITS:
                raise RejectedError(f"{what}-path-too-long", f"a path in the {what} map has more than 256 steps")
            if depths and depth <= depths[-1]:
                raise RejectedError(f"{what}-depth", f"depths in the {what} map do not increase")
            depths.append(depth)
            lefts.append(None)
            position += 2
            continue
        node: Node
        if kind == _HASH:
            digest = proof[position + 1 : position + 33]
            position += 33
            node = (digest, b"")
        elif kind == _LEAF:
            body = proof[position + 1 : position + 65]
            position += 65
            key = body[:32]
            shown += 1
            node = (sha256(leaf_prefix + body).digest(), key, body[32:])
            if position <= size:
                number = int.from_bytes(key, "big")
                for depth, left in zip(depths, lefts, strict=True):
                    if (number >> (255 - depth) & 1) != (left is not None):
                        raise RejectedError(f"{what}-off-path", f"a leaf of the {what} map is not on its key's path")
        else:
            raise RejectedError(f"{what}-malformed", f"the proof of the {what} map has an unknown node kind {kind}")
        if position > size:
            raise RejectedError(f"{what}-truncated", f"the proof of the {what} map ends inside a node")
        while lefts and (left := lefts[-1]) is not None:
            lefts.pop()
            depth = depths.pop()
            shown += len(left) == len(node) == 2
            digest = sha256(inner_prefix + bytes((depth,)) + left[0] + node[0]).digest()
            node = (digest, depth, left, node)
        if not lefts:
            break
        lefts[-1] = node
    if position != size:
        raise RejectedError(f"{what}-trailing", f"the proof of the {what} map goes on after its end")
    return node, shown
