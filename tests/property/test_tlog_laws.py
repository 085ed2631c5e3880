"""What holds for every log: the laws of RFC 9162, against its recursive definitions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from knowing_protocol import tlog
from knowing_protocol.errors import RejectedError
from knowing_protocol.tlog import EMPTY_ROOT, Log, check_consistency, check_inclusion, leaf_hash, node_hash

MAX_LEAVES = 70

sizes = st.integers(0, MAX_LEAVES)


def leaves(size: int) -> list[bytes]:
    return [leaf_hash(index.to_bytes(4, "big")) for index in range(size)]


WHOLE = Log(leaves(MAX_LEAVES))


def split(count: int) -> int:
    power = 1
    while power * 2 < count:
        power *= 2
    return power


def root_by_definition(hashes: list[bytes]) -> bytes:
    if not hashes:
        return EMPTY_ROOT
    if len(hashes) == 1:
        return hashes[0]
    k = split(len(hashes))
    return node_hash(root_by_definition(hashes[:k]), root_by_definition(hashes[k:]))


def path_by_definition(index: int, hashes: list[bytes]) -> list[bytes]:
    if len(hashes) == 1:
        return []
    k = split(len(hashes))
    if index < k:
        return [*path_by_definition(index, hashes[:k]), root_by_definition(hashes[k:])]
    return [*path_by_definition(index - k, hashes[k:]), root_by_definition(hashes[:k])]


def subproof_by_definition(old: int, hashes: list[bytes], *, is_known: bool) -> list[bytes]:
    if old == len(hashes):
        return [] if is_known else [root_by_definition(hashes)]
    k = split(len(hashes))
    if old <= k:
        return [*subproof_by_definition(old, hashes[:k], is_known=is_known), root_by_definition(hashes[k:])]
    return [*subproof_by_definition(old - k, hashes[k:], is_known=False), root_by_definition(hashes[:k])]


@st.composite
def index_and_size(draw: st.DrawFn) -> tuple[int, int]:
    size = draw(st.integers(1, MAX_LEAVES))
    return draw(st.integers(0, size - 1)), size


@st.composite
def old_and_new(draw: st.DrawFn, smallest: int = 1) -> tuple[int, int]:
    new = draw(st.integers(smallest, MAX_LEAVES))
    return draw(st.integers(smallest, new)), new


def consistency_holds(old: int, old_root: bytes, new: int, new_root: bytes, path: list[bytes]) -> bool:
    try:
        check_consistency(old, old_root, new, new_root, path)
    except RejectedError as error:
        if error.code != "log-consistency":
            raise
        return False
    return True


def inclusion_holds(leaf: bytes, index: int, size: int, path: list[bytes], root: bytes) -> bool:
    try:
        check_inclusion(leaf, index, size, path, root)
    except RejectedError as error:
        if error.code != "log-inclusion":
            raise
        return False
    return True


def changed(value: bytes, bit: int) -> bytes:
    return (int.from_bytes(value, "big") ^ 1 << bit).to_bytes(32, "big")


@given(st.lists(st.binary(max_size=8), max_size=40))
def test_root_by_appending_equals_root_by_definition(contents: list[bytes]) -> None:
    hashes = [leaf_hash(content) for content in contents]
    log = Log()
    for count, leaf in enumerate(hashes, start=1):
        log.append(leaf)
        assert log.root() == root_by_definition(hashes[:count])


@given(sizes)
def test_root_of_an_earlier_size_does_not_change_by_growing(size: int) -> None:
    assert WHOLE.root(size) == Log(leaves(size)).root() == root_by_definition(leaves(size))


@given(index_and_size())
def test_inclusion_proof_equals_the_path_by_definition(case: tuple[int, int]) -> None:
    index, size = case
    assert WHOLE.inclusion_proof(index, size) == path_by_definition(index, leaves(size))


@given(old_and_new())
def test_consistency_proof_equals_the_proof_by_definition(case: tuple[int, int]) -> None:
    old, new = case
    assert WHOLE.consistency_proof(old, new) == subproof_by_definition(old, leaves(new), is_known=True)


@given(index_and_size())
def test_every_inclusion_proof_verifies_and_only_for_its_index(case: tuple[int, int]) -> None:
    index, size = case
    leaf, path, root = WHOLE.read(0, index), WHOLE.inclusion_proof(index, size), WHOLE.root(size)
    assert [other for other in range(-1, size + 2) if inclusion_holds(leaf, other, size, path, root)] == [index]


@given(index_and_size(), st.data())
def test_any_changed_hash_of_an_inclusion_proof_is_rejected(case: tuple[int, int], data: st.DataObject) -> None:
    index, size = case
    parts = [WHOLE.read(0, index), WHOLE.root(size), *WHOLE.inclusion_proof(index, size)]
    which = data.draw(st.integers(0, len(parts) - 1))
    parts[which] = changed(parts[which], data.draw(st.integers(0, 255)))
    leaf, root, *path = parts
    assert not inclusion_holds(leaf, index, size, path, root)


@given(old_and_new(smallest=0), st.data())
def test_every_consistency_proof_verifies_and_any_changed_hash_is_rejected(
    case: tuple[int, int], data: st.DataObject
) -> None:
    old, new = case
    parts = [WHOLE.root(old), WHOLE.root(new), *WHOLE.consistency_proof(old, new)]
    old_root, new_root, *path = parts
    assert consistency_holds(old, old_root, new, new_root, path)
    # From an empty log nothing is shown of the new root, so only its own root can be wrong.
    which = data.draw(st.integers(0, 0 if old == 0 else len(parts) - 1))
    parts[which] = changed(parts[which], data.draw(st.integers(0, 255)))
    old_root, new_root, *path = parts
    assert not consistency_holds(old, old_root, new, new_root, path)


@given(old_and_new(smallest=1), st.integers(0, MAX_LEAVES))
def test_a_log_that_rewrote_a_leaf_cannot_show_consistency(case: tuple[int, int], position: int) -> None:
    old, new = case
    rewritten = leaves(new)
    rewritten[position % old] = leaf_hash(b"rewritten")
    other = Log(rewritten)
    assert not consistency_holds(old, WHOLE.root(old), new, other.root(), other.consistency_proof(old, new))
    assert not consistency_holds(old, WHOLE.root(old), new, other.root(), WHOLE.consistency_proof(old, new))


@given(index_and_size(), old_and_new(), st.binary(min_size=32, max_size=32), st.data())
def test_path_one_longer_or_shorter_is_rejected(
    inclusion: tuple[int, int], consistency: tuple[int, int], extra: bytes, data: st.DataObject
) -> None:
    index, size = inclusion
    old, new = consistency
    leaf, root = WHOLE.read(0, index), WHOLE.root(size)
    inclusion_path = WHOLE.inclusion_proof(index, size)
    consistency_path = WHOLE.consistency_proof(old, new)
    for path in one_longer_or_shorter(inclusion_path, extra, data):
        assert not inclusion_holds(leaf, index, size, path, root)
    for path in one_longer_or_shorter(consistency_path, extra, data):
        assert not consistency_holds(old, WHOLE.root(old), new, WHOLE.root(new), path)


def one_longer_or_shorter(path: list[bytes], extra: bytes, data: st.DataObject) -> list[list[bytes]]:
    at = data.draw(st.integers(0, len(path)))
    longer = [*path[:at], extra, *path[at:]]
    shorter = [*path[:at], *path[at + 1 :]]
    # Leaving out what is behind the end leaves the path as it is.
    return [longer] if shorter == path else [longer, shorter]


@given(sizes)
def test_appending_writes_each_complete_node_once(size: int) -> None:
    written = [
        (level, index)
        for position, leaf in enumerate(leaves(size))
        for level, index, _ in tlog.new_complete_nodes(WHOLE, position, leaf)
    ]
    complete = {(level, index) for level in range(size.bit_length()) for index in range(size >> level)}
    assert len(written) == len(set(written))
    assert set(written) == complete


@given(
    st.binary(max_size=33),
    st.integers(),
    st.integers(),
    st.lists(st.binary(max_size=33) | st.just(bytes(32)), max_size=60),
    st.binary(max_size=33),
)
def test_any_input_is_rejected_or_holds_and_nothing_else_is_raised(
    leaf: bytes, index: int, size: int, path: list[bytes], root: bytes
) -> None:
    inclusion_holds(leaf, index, size, path, root)
    consistency_holds(index, leaf, size, root, path)
