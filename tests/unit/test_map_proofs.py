"""Map proofs: reference values by the design's formulas alone, and every forgery by its name."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from hashlib import sha256
from time import perf_counter

import pytest
from knowing_protocol import critbit, mapproof
from knowing_protocol.critbit import MerkleMap
from knowing_protocol.errors import RejectedError
from knowing_protocol.mapproof import MAX_PROOF_BYTES, ProvenMap, prove_map

LEVEL = 9
Content = dict[bytes, bytes]


# The formulas of the design, written down once more:
#   leaf  = SHA-256(00 || level || key || value)
#   inner = SHA-256(01 || level || depth || left || right), depth the first differing bit
#   empty = SHA-256(02 || level)


def bit(key: bytes, depth: int) -> int:
    return int(f"{int.from_bytes(key, 'big'):0256b}"[depth])


def first_differing_bit(keys: Iterable[bytes]) -> int:
    written = [f"{int.from_bytes(key, 'big'):0256b}" for key in keys]
    return next(depth for depth in range(256) if len({text[depth] for text in written}) == 2)


def split(content: Mapping[bytes, bytes]) -> tuple[int, Content, Content]:
    depth = first_differing_bit(content)
    left = {key: value for key, value in content.items() if bit(key, depth) == 0}
    right = {key: value for key, value in content.items() if bit(key, depth) == 1}
    return depth, left, right


def root_by_definition(content: Mapping[bytes, bytes], level: int = LEVEL) -> bytes:
    if not content:
        return sha256(b"\x02" + bytes([level])).digest()
    if len(content) == 1:
        ((key, value),) = content.items()
        return sha256(b"\x00" + bytes([level]) + key + value).digest()
    depth, left, right = split(content)
    sides = root_by_definition(left, level) + root_by_definition(right, level)
    return sha256(b"\x01" + bytes([level]) + bytes([depth]) + sides).digest()


def proof_by_definition(content: Mapping[bytes, bytes], asked: list[bytes], level: int = LEVEL) -> bytes:
    if not content:
        return b"\x03"
    if not asked:
        return b"\x02" + root_by_definition(content, level)
    if len(content) == 1:
        ((key, value),) = content.items()
        return b"\x00" + key + value
    depth, left, right = split(content)
    to_left = [key for key in asked if bit(key, depth) == 0]
    to_right = [key for key in asked if bit(key, depth) == 1]
    return (
        b"\x01"
        + bytes([depth])
        + proof_by_definition(left, to_left, level)
        + proof_by_definition(right, to_right, level)
    )


# Small words to write trees with.


def key_of(*bits: int) -> bytes:
    """A key with these bits set."""
    return sum(1 << (255 - position) for position in set(bits)).to_bytes(32, "big")


ZERO = key_of()
VALUE = sha256(b"value").digest()
OTHER = sha256(b"other").digest()


def leaf(key: bytes, value: bytes = VALUE) -> bytes:
    return b"\0" + key + value


def fork(depth: int, left: bytes, right: bytes) -> bytes:
    return bytes([1, depth]) + left + right


def left_out(digest: bytes) -> bytes:
    return b"\2" + digest


def leaf_digest(key: bytes, value: bytes = VALUE, level: int = LEVEL) -> bytes:
    return sha256(bytes([0, level]) + key + value).digest()


def fork_digest(depth: int, left: bytes, right: bytes, level: int = LEVEL) -> bytes:
    return sha256(bytes([1, level, depth]) + left + right).digest()


def refusal(proof: bytes, root: bytes, level: int = LEVEL) -> str:
    with pytest.raises(RejectedError) as caught:
        ProvenMap(proof, level, root, "test")
    assert "test" in caught.value.message
    return caught.value.code


def seeded(size: int, seed: int = 1) -> Content:
    rng = random.Random(seed)
    return {rng.randbytes(32): rng.randbytes(32) for _ in range(size)}


CONTENTS = {
    "nothing": {},
    "one": {ZERO: VALUE},
    "first bit": {ZERO: VALUE, key_of(0): OTHER},
    "last bit": {ZERO: VALUE, key_of(255): OTHER},
    "all ones": {b"\xff" * 32: VALUE, ZERO: OTHER},
    "every depth": {ZERO: VALUE} | {key_of(position): OTHER for position in range(256)},
    "one long path": {key_of(*range(count)): VALUE for count in range(257)},
    "same values": dict.fromkeys(seeded(12), VALUE),
    "a dozen": seeded(12),
    "below the threshold of buckets": seeded(255),
    "at the threshold of buckets": seeded(256),
    "buckets": seeded(600),
    "one bucket": {bytes(30) + number.to_bytes(2, "big"): VALUE for number in range(300)},
    "two far apart": {b"\xaa" * 30 + number.to_bytes(2, "big"): VALUE for number in range(150)}
    | {b"\x55" * 30 + number.to_bytes(2, "big"): VALUE for number in range(150)},
}
cases = pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())


# Reference values


@pytest.mark.parametrize(
    ("content", "root"),
    [
        ({}, sha256(b"\x02\x09").hexdigest()),
        ({ZERO: VALUE}, sha256(b"\x00\x09" + bytes(32) + VALUE).hexdigest()),
        (
            {ZERO: VALUE, bytes(31) + b"\x01": OTHER},
            sha256(
                b"\x01\x09\xff"
                + sha256(b"\x00\x09" + bytes(32) + VALUE).digest()
                + sha256(b"\x00\x09" + bytes(31) + b"\x01" + OTHER).digest()
            ).hexdigest(),
        ),
    ],
    ids=["empty", "leaf", "inner"],
)
def test_root_is_the_formula_of_the_design(content: Content, root: str) -> None:
    assert MerkleMap.of(LEVEL, content).root.hex() == root


def test_hash_functions_are_the_formulas_of_the_design() -> None:
    assert critbit.leaf_hash(5, ZERO, VALUE) == sha256(b"\x00\x05" + ZERO + VALUE).digest()
    assert critbit.inner_hash(5, 200, VALUE, OTHER) == sha256(b"\x01\x05\xc8" + VALUE + OTHER).digest()
    assert critbit.empty_hash(5) == sha256(b"\x02\x05").digest()


def test_first_difference_counts_from_the_most_significant_bit() -> None:
    assert critbit.first_difference(ZERO, key_of(0)) == 0
    assert critbit.first_difference(ZERO, key_of(7, 8)) == 7
    assert critbit.first_difference(key_of(255), ZERO) == 255
    assert critbit.first_difference(VALUE, VALUE) == 256
    assert [critbit.bit(key_of(0, 9, 255), depth) for depth in (0, 1, 8, 9, 254, 255)] == [1, 0, 0, 1, 0, 1]


@cases
def test_root_equals_the_root_by_definition(content: Content) -> None:
    expected = root_by_definition(content)
    assert MerkleMap.of(LEVEL, content).root == expected
    assert MerkleMap(LEVEL, critbit.build(LEVEL, content)).root == expected


@pytest.mark.parametrize("level", [1, 20, 63])
def test_root_equals_the_root_by_definition_at_every_level(level: int) -> None:
    for content in (seeded(5), seeded(300)):
        assert MerkleMap.of(level, content).root == root_by_definition(content, level)


@cases
def test_proof_equals_the_proof_by_definition(content: Content) -> None:
    tree = MerkleMap.of(LEVEL, content)
    present, absent = sorted(content)[:: max(1, len(content) // 5)], [sha256(b"absent").digest(), key_of(0, 255)]
    for asked in ([], present[:1], absent[:1], present, absent, present + absent):
        proof = prove_map(tree, asked)
        assert proof == proof_by_definition(content, asked)
        shown = ProvenMap(proof, LEVEL, tree.root, "test")
        assert [shown.get(key) for key in asked] == [content.get(key) for key in asked]


@cases
def test_proof_of_all_keys_leaves_nothing_out(content: Content) -> None:
    proof = prove_map(MerkleMap.of(LEVEL, content), content)
    assert len(proof) == (65 * len(content) + 2 * (len(content) - 1) if content else 1)


def test_update_of_an_absent_key_gives_the_same_tree() -> None:
    node = critbit.build(LEVEL, seeded(20))
    assert critbit.delete(LEVEL, node, ZERO) is node
    assert critbit.update(LEVEL, node, {}) is node


def test_whole_map_that_meets_a_stub_says_so() -> None:
    top = MerkleMap(LEVEL, critbit.build_top(LEVEL, {ZERO: VALUE}))
    with pytest.raises(critbit.MissingSubtreeError) as caught:
        top.get(ZERO)
    assert caught.value.code == "missing-subtree"


def test_prefix_root_of_a_key_in_a_large_map_is_its_leaf() -> None:
    content = seeded(256)
    tree = MerkleMap.of(LEVEL, content)
    for key, value in content.items():
        assert tree.prefix_root(key, 256) == leaf_digest(key, value)


def test_prefix_root_looks_into_a_bucket_that_starts_with_zeros() -> None:
    content = {ZERO: VALUE, key_of(9): OTHER}  # both in the bucket of the first eight bits
    node = critbit.build(LEVEL, content)
    assert node is not None
    assert len(node) == 4
    top = MerkleMap(LEVEL, critbit.build_top(LEVEL, {ZERO: node[0]}), lambda _: node)
    assert top.prefix_root(ZERO, 16) == leaf_digest(ZERO)


# Forgeries by name


def test_empty_proof_is_rejected() -> None:
    assert refusal(b"", root_by_definition({})) == "test-empty-proof"
    assert refusal(b"", root_by_definition(seeded(4))) == "test-empty-proof"


def test_proof_of_the_empty_map_is_none_of_another_map() -> None:
    assert refusal(b"\3", root_by_definition({ZERO: VALUE})) == "test-root"
    assert ProvenMap(b"\3", LEVEL, root_by_definition({}), "test").get(ZERO) is None


@pytest.mark.parametrize(
    "proof",
    [b"\3", leaf(ZERO), left_out(VALUE), fork(0, leaf(ZERO), leaf(key_of(0)))],
    ids=["empty map", "leaf", "left out", "fork"],
)
@pytest.mark.parametrize("more", [b"\0", b"\3", leaf(ZERO), left_out(VALUE)], ids=["byte", "empty", "leaf", "hash"])
def test_trailing_bytes_are_rejected(proof: bytes, more: bytes) -> None:
    assert refusal(proof + more, VALUE) == "test-trailing"


def test_proof_truncated_at_any_byte_is_rejected() -> None:
    content = seeded(6)
    tree = MerkleMap.of(LEVEL, content)
    proof = prove_map(tree, sorted(content)[::2])
    ProvenMap(proof, LEVEL, tree.root, "test")
    codes = {refusal(proof[:size], tree.root) for size in range(1, len(proof))}
    assert codes <= {"test-truncated", "test-depth"}
    assert refusal(proof[:-1], tree.root) == "test-truncated"
    assert refusal(proof[:1], tree.root) == "test-truncated"


def test_fork_without_its_right_side_is_rejected() -> None:
    assert refusal(fork(0, leaf(ZERO), b""), VALUE) == "test-truncated"


def test_depth_that_decreases_is_rejected() -> None:
    left = fork_digest(3, leaf_digest(ZERO), leaf_digest(key_of(3)))
    root = fork_digest(5, left, leaf_digest(key_of(5)))
    proof = fork(5, fork(3, leaf(ZERO), leaf(key_of(3))), leaf(key_of(5)))
    assert refusal(proof, root) == "test-depth"


def test_depth_that_stays_equal_is_rejected() -> None:
    inner = fork_digest(3, leaf_digest(ZERO), leaf_digest(key_of(3)))
    assert refusal(fork(3, fork(3, leaf(ZERO), leaf(key_of(3))), leaf(key_of(3))), inner) == "test-depth"
    assert refusal(fork(3, left_out(VALUE), fork(3, leaf(ZERO), leaf(key_of(3)))), inner) == "test-depth"


def test_depth_is_compared_with_its_own_parent_after_a_branch_is_finished() -> None:
    content = {ZERO: VALUE, key_of(9): VALUE, key_of(0): VALUE, key_of(0, 4): VALUE}
    proof = fork(0, fork(9, leaf(ZERO), leaf(key_of(9))), fork(4, leaf(key_of(0)), leaf(key_of(0, 4))))
    assert ProvenMap(proof, LEVEL, root_by_definition(content), "test").get(key_of(0, 4)) == VALUE


def long_path(forks: int) -> bytes:
    """A path of forks, each on the left side of the one before."""
    down = b"".join(bytes([1, min(depth, 255)]) for depth in range(forks))
    return down + leaf(ZERO) + b"".join(left_out(VALUE) for _ in range(forks))


def test_path_of_256_steps_is_accepted() -> None:
    content = CONTENTS["every depth"]
    tree = MerkleMap.of(LEVEL, content)
    proof = prove_map(tree, [ZERO])
    assert len(proof) == 256 * 2 + 65 + 256 * 33
    assert ProvenMap(proof, LEVEL, tree.root, "test").get(ZERO) == VALUE
    with pytest.raises(RejectedError, match="hashes to"):
        ProvenMap(long_path(256), LEVEL, tree.root, "test")


@pytest.mark.parametrize("forks", [257, 300, 100_000])
def test_path_longer_than_256_steps_is_rejected(forks: int) -> None:
    assert refusal(long_path(forks), VALUE) == "test-path-too-long"


def test_leaf_off_its_path_is_rejected() -> None:
    root = fork_digest(0, leaf_digest(key_of(0)), leaf_digest(key_of(0, 1)))
    assert refusal(fork(0, leaf(key_of(0)), leaf(key_of(0, 1))), root) == "test-off-path"
    assert refusal(fork(0, left_out(VALUE), leaf(ZERO)), root) == "test-off-path"


def test_leaf_off_its_path_at_an_upper_fork_only_is_rejected() -> None:
    key = key_of(8)  # right at 8, but left at 0, and the proof puts it right at both
    assert refusal(fork(0, left_out(VALUE), fork(8, left_out(VALUE), leaf(key))), VALUE) == "test-off-path"


def test_leaf_hidden_off_its_path_stays_absent() -> None:
    hidden = key_of(0)
    root = fork_digest(0, leaf_digest(hidden), leaf_digest(key_of(0, 1)))
    proof = fork(0, left_out(leaf_digest(hidden)), leaf(key_of(0, 1)))
    shown = ProvenMap(proof, LEVEL, root, "test")
    assert shown.get(hidden) is None
    with pytest.raises(RejectedError) as caught:
        shown.get(ZERO)
    assert caught.value.code == "test-not-shown"


def test_unknown_kind_is_rejected() -> None:
    for kind in range(4, 256):
        assert refusal(bytes([kind]) + bytes(64), VALUE) == "test-malformed"
        assert refusal(fork(0, leaf(ZERO), bytes([kind]) + bytes(64)), VALUE) == "test-malformed"


def test_empty_map_inside_a_tree_is_rejected() -> None:
    assert refusal(fork(0, leaf(ZERO), b"\3"), VALUE) == "test-malformed"
    assert refusal(fork(0, b"\3", leaf(key_of(0))), VALUE) == "test-malformed"


def test_level_swapped_is_rejected() -> None:
    for content in (dict[bytes, bytes](), {ZERO: VALUE}, seeded(5)):
        proof = proof_by_definition(content, [ZERO])
        assert refusal(proof, root_by_definition(content), LEVEL + 1) == "test-root"
        assert refusal(proof, root_by_definition(content, LEVEL + 1)) == "test-root"


def test_value_swapped_is_rejected() -> None:
    content = seeded(5)
    key = min(content)
    forged = proof_by_definition(content | {key: VALUE}, [key])
    assert refusal(forged, root_by_definition(content)) == "test-root"


def test_sides_swapped_are_rejected() -> None:
    content = {ZERO: VALUE, key_of(0): OTHER}
    swapped = fork(0, left_out(leaf_digest(key_of(0), OTHER)), left_out(leaf_digest(ZERO)))
    assert refusal(swapped, root_by_definition(content)) == "test-root"


def test_depth_changed_is_rejected() -> None:
    content = {ZERO: VALUE, key_of(3): OTHER}
    root = root_by_definition(content)
    ProvenMap(fork(3, leaf(ZERO), leaf(key_of(3), OTHER)), LEVEL, root, "test")
    assert refusal(fork(3, leaf(ZERO), leaf(key_of(3, 4), OTHER)), root) == "test-root"
    assert refusal(fork(2, leaf(ZERO), left_out(leaf_digest(key_of(3), OTHER))), root) == "test-root"


def test_opaque_root_alone_shows_nothing() -> None:
    content = seeded(5)
    shown = ProvenMap(left_out(root_by_definition(content)), LEVEL, root_by_definition(content), "test")
    for key in (min(content), ZERO):
        with pytest.raises(RejectedError) as caught:
            shown.get(key)
        assert caught.value.code == "test-not-shown"


def test_opaque_root_of_the_empty_map_shows_nothing() -> None:
    empty = root_by_definition({})
    with pytest.raises(RejectedError) as caught:
        ProvenMap(left_out(empty), LEVEL, empty, "test").get(ZERO)
    assert caught.value.code == "test-not-shown"


def test_key_that_was_left_out_is_not_absent() -> None:
    content = seeded(40)
    tree = MerkleMap.of(LEVEL, content)
    first, last = min(content), max(content)
    shown = ProvenMap(prove_map(tree, [first]), LEVEL, tree.root, "test")
    with pytest.raises(RejectedError) as caught:
        shown.get(last)
    assert caught.value.code == "test-not-shown"


def test_neighbours_of_a_present_key_are_no_proof_of_its_absence() -> None:
    content = seeded(9)
    tree = MerkleMap.of(LEVEL, content)
    before, key, after = sorted(content)[3:6]
    shown = ProvenMap(prove_map(tree, [before, after]), LEVEL, tree.root, "test")
    try:
        answer = shown.get(key)
    except RejectedError as error:
        assert error.code == "test-not-shown"  # noqa: PT017 — either of the two is right
    else:
        assert answer == content[key]


def test_leaf_that_looks_like_a_fork_is_none() -> None:
    left, right = seeded(2).values()
    disguised = fork_digest(0, left, right)
    assert refusal(leaf(left, right), disguised) == "test-root"


def test_oversized_proof_is_rejected_before_it_is_read() -> None:
    start = perf_counter()
    assert refusal(b"\1" * (MAX_PROOF_BYTES + 1), VALUE) == "test-too-large"
    assert perf_counter() - start < 0.5


def test_largest_proof_is_still_read(monkeypatch: pytest.MonkeyPatch) -> None:
    proof = proof_by_definition({ZERO: VALUE}, [ZERO])
    monkeypatch.setattr(mapproof, "MAX_PROOF_BYTES", len(proof))
    assert ProvenMap(proof, LEVEL, root_by_definition({ZERO: VALUE}), "test").get(ZERO) == VALUE
    monkeypatch.setattr(mapproof, "MAX_PROOF_BYTES", len(proof) - 1)
    assert refusal(proof, root_by_definition({ZERO: VALUE})) == "test-too-large"
