"""The logs of other nodes: extended by what leads to a signed root, and by nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from knowing_protocol import tlog

from knowingd.store.nodestore import NodeStore
from knowingd.store.originlog import OriginLog
from knowingd.store.originstore import OriginStore, PinRow

ORIGIN = b"o" * 32


def leaf(number: int, world: str = "") -> bytes:
    return sha256(f"\0{world}{number}".encode()).digest()


def leaves(start: int, end: int) -> list[bytes]:
    return [leaf(number) for number in range(start, end)]


def root(hashes: Sequence[bytes]) -> bytes:
    """RFC 6962 by its definition."""
    if len(hashes) <= 1:
        return hashes[0] if hashes else sha256(b"").digest()
    split = 1 << ((len(hashes) - 1).bit_length() - 1)
    return sha256(b"\1" + root(hashes[:split]) + root(hashes[split:])).digest()


def pin(size: int, of: bytes | None = None, epoch: int = 0) -> PinRow:
    return PinRow(ORIGIN, epoch, size, of or root(leaves(0, size)), f"note {size}\n")


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.booleans()), max_size=12))
def test_whatever_is_tried_a_pin_never_goes_down_or_sideways(
    tmp_path_factory: pytest.TempPathFactory, tries: list[tuple[int, int, int, bool]]
) -> None:
    store = NodeStore(tmp_path_factory.mktemp("log") / "node.db")
    try:
        log, origins = OriginLog(store.database, ORIGIN, 0), OriginStore(store.database)
        pinned = 0
        for start, count, size, forged in tries:
            given_leaves = leaves(start, start + count)
            if forged and given_leaves:
                given_leaves[-1] = leaf(start, "another world")
            before = log.size()
            moved = log.extend(start, given_leaves, pin(size))
            if moved:
                assert size <= max(before, start + count)
                pinned = max(pinned, size)
            else:
                assert log.size() == before  # nothing stays of what did not lead there
            assert log.leaves(0, pinned) == leaves(0, pinned)
            row = origins.pin(ORIGIN, 0)
            assert row == (pin(pinned) if row is not None and pinned else row)
            assert (row.size if row is not None else 0) == pinned
    finally:
        store.close()


def test_a_second_root_for_one_size_is_not_taken(tmp_path: Path) -> None:
    store = NodeStore(tmp_path / "node.db")
    log, origins = OriginLog(store.database, ORIGIN, 0), OriginStore(store.database)
    assert log.extend(0, leaves(0, 5), pin(5))
    other = [*leaves(0, 4), leaf(4, "another world")]
    assert not log.extend(0, other, pin(5, root(other)))
    assert not log.extend(5, [leaf(5)], pin(6, root([*other, leaf(5)])))
    assert origins.pin(ORIGIN, 0) == pin(5)
    assert log.extend(5, leaves(5, 9), pin(9))
    assert origins.pins() == origins.pins(ORIGIN) == [pin(9)]
    assert origins.pins(b"x" * 32) == []
    store.close()


def test_every_epoch_is_a_log_of_its_own(tmp_path: Path) -> None:
    store = NodeStore(tmp_path / "node.db")
    assert OriginLog(store.database, ORIGIN, 0).extend(0, leaves(0, 3), pin(3))
    other = [leaf(number, "second epoch") for number in range(2)]
    assert OriginLog(store.database, ORIGIN, 1).extend(0, other, pin(2, root(other), epoch=1))
    assert [row.size for row in OriginStore(store.database).pins(ORIGIN)] == [3, 2]
    store.close()


def test_paths_lead_from_every_leaf_to_every_later_root(tmp_path: Path) -> None:
    store = NodeStore(tmp_path / "node.db")
    log = OriginLog(store.database, ORIGIN, 0)
    assert log.extend(0, leaves(0, 11), pin(11))
    for size in range(1, 12):
        for index in range(size):
            tlog.check_inclusion(leaf(index), index, size, log.inclusion(index, size), root(leaves(0, size)))
    store.close()
