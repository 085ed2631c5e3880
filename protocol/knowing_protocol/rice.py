"""Which of N things, in about as many bits as there is information in the answer.

A subset of 0..N-1 is the gaps between its sorted members, each as a Rice code: the gap's high part in unary (ones and
a zero), its low `parameter` bits as they are. For a random subset that is within a few hundredths of the entropy.
The first byte is the parameter; the rest is the bits, padded with zeros to a whole byte. Where more than half of all
are members, the others are encoded.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import Final

from knowing_protocol.errors import MalformedError

MAX_PARAMETER: Final = 40


def encode_subset(members: Collection[int], universe: int) -> bytes:
    """The members of a subset of what is below `universe`, in any order."""
    if 2 * len(members) > universe:
        members = set(range(universe)).difference(members)
    if not members:
        return b"\0"
    ordered = sorted(members)
    gaps = [ordered[0], *(after - before - 1 for before, after in pairwise(ordered))]
    _, parameter = min((sum(gap >> k for gap in gaps) + len(gaps) * (k + 1), k) for k in range(MAX_PARAMETER))
    low = (1 << parameter) - 1
    bits = "".join("1" * (gap >> parameter) + "0" + _low(gap & low, parameter) for gap in gaps)
    bits += "0" * (-len(bits) % 8)
    return bytes([parameter]) + int(bits, 2).to_bytes(len(bits) // 8, "big")


def _low(value: int, width: int) -> str:
    return format(value, f"0{width}b") if width else ""


def decode_subset(data: bytes, count: int, universe: int) -> list[int]:
    """`count` members below `universe`, sorted; only the one encoding of them is taken."""
    if count > universe:
        raise MalformedError("a subset has more members than there are", code="subset")
    if 2 * count > universe:
        others = _members(data, universe - count, universe)
        found = sorted(set(range(universe)).difference(others))
    else:
        found = _members(data, count, universe)
    if encode_subset(found, universe) != data:
        raise MalformedError("a subset is not in its one encoding", code="subset")
    return found


def _members(data: bytes, count: int, universe: int) -> list[int]:
    if not data or data[0] >= MAX_PARAMETER or count > 8 * len(data):
        raise MalformedError("a subset has no parameter, or fewer bits than members", code="subset")
    found: list[int] = []
    parameter = data[0]
    bits = format(int.from_bytes(b"\1" + data[1:], "big"), "b")[1:]
    place, last = 0, -1
    for _ in range(count):
        end = bits.find("0", place)
        if end < 0 or end + 1 + parameter > len(bits):
            raise MalformedError("a subset ends before its last member", code="subset")
        low = int(bits[end + 1 : end + 1 + parameter] or "0", 2)
        last += ((end - place) << parameter | low) + 1
        if last >= universe:
            raise MalformedError("a subset has a member that is not there", code="subset")
        found.append(last)
        place = end + 1 + parameter
    return found
