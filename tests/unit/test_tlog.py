"""The Merkle log against the reference tree of certificate-transparency, and every refusal by name."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest
from knowing_protocol import tlog
from knowing_protocol.errors import MalformedError, RejectedError
from knowing_protocol.tlog import EMPTY_ROOT, MAX_SIZE, Log, check_consistency, check_inclusion, leaf_hash, node_hash

REFERENCE_LEAVES = [
    b"",
    b"\x00",
    b"\x10",
    b"\x20\x21",
    b"\x30\x31",
    b"\x40\x41\x42\x43",
    bytes(range(0x50, 0x58)),
    bytes(range(0x60, 0x70)),
]
REFERENCE_ROOTS = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]

# (index, size, path), from the same tests.
REFERENCE_INCLUSIONS = [
    (0, 1, []),
    (
        0,
        8,
        [
            "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
        ],
    ),
    (
        5,
        8,
        [
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
            "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        ],
    ),
    (2, 3, ["fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"]),
    (
        1,
        5,
        [
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        ],
    ),
]

# (old, new, path), from the same tests.
REFERENCE_CONSISTENCIES = [
    (1, 1, []),
    (
        1,
        8,
        [
            "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
        ],
    ),
    (
        6,
        8,
        [
            "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
            "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        ],
    ),
    (
        2,
        5,
        [
            "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
            "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b",
        ],
    ),
]


@pytest.fixture
def log() -> Log:
    return Log(map(leaf_hash, REFERENCE_LEAVES))


def inclusion_arguments(log: Log) -> dict[str, Any]:
    return {
        "leaf_hash": leaf_hash(REFERENCE_LEAVES[5]),
        "index": 5,
        "size": 7,
        "path": log.inclusion_proof(5, 7),
        "root": log.root(7),
    }


def consistency_arguments(log: Log) -> dict[str, Any]:
    return {
        "old_size": 6,
        "old_root": log.root(6),
        "new_size": 8,
        "new_root": log.root(8),
        "path": log.consistency_proof(6, 8),
    }


def assert_rejected(code: str, check: Callable[..., object], *arguments: Any, **named: Any) -> None:
    with pytest.raises(RejectedError) as caught:
        check(*arguments, **named)
    assert caught.value.code == code


def test_leaf_and_node_hashes_have_the_prefixes_of_rfc_6962() -> None:
    left, right = bytes(32), bytes([1] * 32)
    assert leaf_hash(b"data") == sha256(b"\x00data").digest()
    assert node_hash(left, right) == sha256(b"\x01" + left + right).digest()
    assert sha256().digest() == EMPTY_ROOT


@pytest.mark.parametrize("size", range(9))
def test_reference_root(log: Log, size: int) -> None:
    assert log.root(size).hex() == REFERENCE_ROOTS[size]
    assert Log(map(leaf_hash, REFERENCE_LEAVES[:size])).root().hex() == REFERENCE_ROOTS[size]


@pytest.mark.parametrize(("index", "size", "path"), REFERENCE_INCLUSIONS)
def test_reference_inclusion_proof(log: Log, index: int, size: int, path: list[str]) -> None:
    assert [node.hex() for node in log.inclusion_proof(index, size)] == path
    check_inclusion(leaf_hash(REFERENCE_LEAVES[index]), index, size, log.inclusion_proof(index, size), log.root(size))


@pytest.mark.parametrize(("old", "new", "path"), REFERENCE_CONSISTENCIES)
def test_reference_consistency_proof(log: Log, old: int, new: int, path: list[str]) -> None:
    assert [node.hex() for node in log.consistency_proof(old, new)] == path
    check_consistency(old, log.root(old), new, log.root(new), log.consistency_proof(old, new))


def test_append_returns_the_index_and_grows_the_log() -> None:
    log = Log()
    assert log.size == 0
    assert log.root() == EMPTY_ROOT
    assert [log.append(leaf_hash(data)) for data in REFERENCE_LEAVES] == list(range(8))
    assert log.size == 8


def test_new_complete_nodes_are_what_a_store_must_write() -> None:
    stored: dict[tuple[int, int], bytes] = {}

    class Store:
        def read(self, level: int, index: int) -> bytes:
            return stored[level, index]

    for index, data in enumerate(REFERENCE_LEAVES):
        for level, node_index, node in tlog.new_complete_nodes(Store(), index, leaf_hash(data)):
            assert (level, node_index) not in stored
            stored[level, node_index] = node
    assert len(stored) == 8 + 4 + 2 + 1
    assert tlog.root_from(Store(), 7).hex() == REFERENCE_ROOTS[7]


@pytest.mark.parametrize("size", [MAX_SIZE, MAX_SIZE - 1, 2**52, 2**52 + 1, 2**52 + 2**20])
@pytest.mark.parametrize("position", [0, 1, 2**20 - 1, 2**51, 2**52 - 1])
def test_a_huge_log_is_proved_with_few_reads(size: int, position: int) -> None:
    # All leaves are alike, so all complete subtrees of one level are, and the log needs no room.
    levels = [bytes(32)]
    for _ in range(53):
        levels.append(node_hash(levels[-1], levels[-1]))

    class AlikeStore:
        reads = 0

        def read(self, level: int, index: int) -> bytes:
            assert 0 <= index < size >> level, "only complete subtrees may be asked for"
            self.reads += 1
            return levels[level]

    store = AlikeStore()
    root = tlog.root_from(store, size)
    path = tlog.inclusion_proof(store, position, size)
    check_inclusion(bytes(32), position, size, path, root)
    old_root = tlog.root_from(store, position)
    check_consistency(position, old_root, size, root, tlog.consistency_proof(store, position, size))
    tlog.new_complete_nodes(store, size - 1, bytes(32))
    assert store.reads <= 5 * 2 * 53


# Making proofs


@pytest.mark.parametrize("size", [-1, 9, MAX_SIZE + 1])
def test_root_of_a_size_that_the_log_does_not_have_is_refused(log: Log, size: int) -> None:
    assert_rejected("log-range", log.root, size)


@pytest.mark.parametrize(("index", "size"), [(8, 8), (-1, 8), (0, 0), (0, 9), (3, 3), (0, -1), (0, MAX_SIZE + 1)])
def test_inclusion_proof_out_of_range_is_refused(log: Log, index: int, size: int) -> None:
    assert_rejected("log-range", log.inclusion_proof, index, size)


@pytest.mark.parametrize(("old", "new"), [(5, 4), (-1, 4), (3, 9), (0, -1), (0, MAX_SIZE + 1)])
def test_consistency_proof_out_of_range_is_refused(log: Log, old: int, new: int) -> None:
    assert_rejected("log-range", log.consistency_proof, old, new)


@pytest.mark.parametrize(("level", "index"), [(0, 8), (0, -1), (-1, 0), (3, 1), (4, 0)])
def test_read_of_a_subtree_that_is_not_complete_is_refused(log: Log, level: int, index: int) -> None:
    assert_rejected("log-range", log.read, level, index)


def test_log_at_its_largest_size_cannot_grow() -> None:
    class EndlessStore:
        def read(self, level: int, index: int) -> bytes:
            assert level >= 0
            assert index >= 0
            return bytes(32)

    assert MAX_SIZE == 2**53 - 1
    assert tlog.new_complete_nodes(EndlessStore(), MAX_SIZE - 1, bytes(32))
    assert_rejected("log-range", tlog.new_complete_nodes, EndlessStore(), MAX_SIZE, bytes(32))
    assert_rejected("log-range", tlog.new_complete_nodes, EndlessStore(), -1, bytes(32))


@pytest.mark.parametrize("length", [0, 31, 33])
def test_leaf_hash_of_wrong_length_is_malformed_and_changes_nothing(log: Log, length: int) -> None:
    before = log.root()
    with pytest.raises(MalformedError):
        log.append(bytes(length))
    assert log.root() == before


@pytest.mark.parametrize(("left", "right"), [(31, 33), (32, 31), (0, 32)])
def test_node_hash_of_wrong_lengths_is_malformed(left: int, right: int) -> None:
    with pytest.raises(MalformedError):
        node_hash(bytes(left), bytes(right))


def test_store_that_returns_a_wrong_length_is_malformed() -> None:
    class BrokenStore:
        def read(self, level: int, index: int) -> bytes:
            return bytes(level + index)

    with pytest.raises(MalformedError):
        tlog.root_from(BrokenStore(), 1)


# Checking inclusion


def test_inclusion_arguments_of_these_tests_verify(log: Log) -> None:
    check_inclusion(**inclusion_arguments(log))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"index": 7}, id="index equal to size"),
        pytest.param({"index": 2**60}, id="index above size"),
        pytest.param({"index": -1}, id="negative index"),
        pytest.param({"index": 4}, id="another index"),
        pytest.param({"index": True}, id="index that is a truth value"),
        pytest.param({"index": 5.0}, id="index that is a float"),
        pytest.param({"size": 0}, id="empty log"),
        pytest.param({"size": -8}, id="negative size"),
        pytest.param({"size": MAX_SIZE + 1}, id="size too large"),
        pytest.param({"size": 2**4000}, id="size far too large"),
        pytest.param({"size": "7"}, id="size that is text"),
        pytest.param({"path": []}, id="empty path"),
        pytest.param({"path": [b"", b"", b""]}, id="empty hashes"),
        pytest.param({"path": [bytes(31), bytes(32), bytes(32)]}, id="short hash"),
        pytest.param({"path": [bytes(33), bytes(32), bytes(32)]}, id="long hash"),
        pytest.param({"path": ["0" * 32, bytes(32), bytes(32)]}, id="hash that is text"),
        pytest.param({"path": [None, None, None]}, id="hashes that are nothing"),
        pytest.param({"path": [bytes(32)] * 100_000}, id="very long path"),
        pytest.param({"leaf_hash": bytes(32)}, id="another leaf"),
        pytest.param({"leaf_hash": b""}, id="empty leaf hash"),
        pytest.param({"root": bytes(32)}, id="another root"),
        pytest.param({"root": b""}, id="empty root"),
    ],
)
def test_inclusion_is_rejected(log: Log, change: dict[str, Any]) -> None:
    assert_rejected("log-inclusion", check_inclusion, **(inclusion_arguments(log) | change))


def test_root_from_inclusion_returns_the_root(log: Log) -> None:
    arguments = inclusion_arguments(log)
    root = arguments.pop("root")
    assert tlog.root_from_inclusion(**arguments) == root


# Checking consistency


def test_consistency_arguments_of_these_tests_verify(log: Log) -> None:
    check_consistency(**consistency_arguments(log))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"old_size": 9}, id="old above new"),
        pytest.param({"old_size": -1}, id="negative old"),
        pytest.param({"old_size": 5}, id="another old size"),
        pytest.param({"old_size": 4}, id="another old size, a power of two"),
        pytest.param({"old_size": 0}, id="empty old log with a path"),
        pytest.param({"old_size": 8}, id="same size with a path"),
        pytest.param({"old_size": 6.0}, id="old size that is a float"),
        pytest.param({"old_size": True}, id="old size that is a truth value"),
        pytest.param({"new_size": 9}, id="another new size"),
        pytest.param({"new_size": MAX_SIZE + 1}, id="new size too large"),
        pytest.param({"new_size": 0}, id="new log empty"),
        pytest.param({"old_root": bytes(32)}, id="another old root"),
        pytest.param({"new_root": bytes(32)}, id="another new root"),
        pytest.param({"old_root": b""}, id="empty old root"),
        pytest.param({"new_root": bytes(33)}, id="long new root"),
        pytest.param({"path": []}, id="empty path"),
        pytest.param({"path": [bytes(32)] * 3}, id="another path"),
        pytest.param({"path": [bytes(31)] * 3}, id="short hashes"),
        pytest.param({"path": [None] * 3}, id="hashes that are nothing"),
        pytest.param({"path": [bytes(32)] * 100_000}, id="very long path"),
    ],
)
def test_consistency_is_rejected(log: Log, change: dict[str, Any]) -> None:
    assert_rejected("log-consistency", check_consistency, **(consistency_arguments(log) | change))


def test_every_log_begins_with_the_empty_one(log: Log) -> None:
    check_consistency(0, EMPTY_ROOT, 8, log.root(), [])
    check_consistency(0, EMPTY_ROOT, 0, EMPTY_ROOT, [])
    assert log.consistency_proof(0, 8) == []


def test_empty_old_log_with_another_root_is_rejected(log: Log) -> None:
    assert_rejected("log-consistency", check_consistency, 0, bytes(32), 8, log.root(), [])
    assert_rejected("log-consistency", check_consistency, 0, bytes(32), 0, bytes(32), [])
    assert_rejected("log-consistency", check_consistency, 0, EMPTY_ROOT, 8, b"", [])


def test_same_size_with_different_roots_is_rejected(log: Log) -> None:
    check_consistency(8, log.root(), 8, log.root(), [])
    assert_rejected("log-consistency", check_consistency, 8, log.root(), 8, bytes(32), [])


def test_a_path_alone_does_not_pin_the_size(log: Log) -> None:
    # 6 leaves grow to 7 and to 8 beside the same siblings. That is why size and root are signed together.
    check_consistency(**(consistency_arguments(log) | {"new_size": 7}))
