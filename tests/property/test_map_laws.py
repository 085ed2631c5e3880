"""What holds for every crit-bit map and every proof about one, whatever its keys, its history or its maker."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import NamedTuple

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from knowing_protocol import critbit
from knowing_protocol.critbit import KEY_BITS, Inner, Leaf, Loader, MerkleMap, Node, Stub
from knowing_protocol.errors import RejectedError
from knowing_protocol.mapproof import ProvenMap, prove, prove_map

LEVEL = 7
SIZES = (0, 1, 2, 3, 17, 255, 256, 257, 400)  # from 256 keys on, `of` keeps buckets and forgets what is below them
SHAPES = ("scattered", "long-prefix", "counting", "mixed")


class Content(dict[bytes, bytes]):
    """A map's content; a large one is not printed in full."""

    def __repr__(self) -> str:
        return super().__repr__() if len(self) < 6 else f"<{len(self)} keys from {min(self).hex()}>"


few = settings(max_examples=40, deadline=None)
some = settings(max_examples=100, deadline=None)
many = settings(max_examples=300, deadline=None)


# The definition, once more and slowly.


def naive_root(content: Mapping[bytes, bytes], level: int = LEVEL) -> bytes:
    if not content:
        return sha256(bytes([2, level])).digest()
    if len(content) == 1:
        ((key, value),) = content.items()
        return sha256(bytes([0, level]) + key + value).digest()
    numbers = [int.from_bytes(key, "big") for key in content]
    depth = 256 - (min(numbers) ^ max(numbers)).bit_length()
    left = {key: value for key, value in content.items() if not key[depth // 8] >> (7 - depth % 8) & 1}
    right = {key: value for key, value in content.items() if key not in left}
    return sha256(bytes([1, level, depth]) + naive_root(left, level) + naive_root(right, level)).digest()


def masked(key: bytes, bits: int) -> bytes:
    """A key with everything after its first bits cleared."""
    return (int.from_bytes(key, "big") >> (256 - bits) << (256 - bits)).to_bytes(32, "big")


def restricted(content: Content, prefix: bytes, bits: int) -> Content:
    return Content((key, value) for key, value in content.items() if masked(key, bits) == masked(prefix, bits))


# Contents: many keys from a seed, and a few that Hypothesis chooses, close to each other and to those.


def value_of(number: int) -> bytes:
    return sha256(number.to_bytes(8, "big")).digest()


def bulk_key(shape: str, index: int, rng: random.Random) -> bytes:
    if shape == "mixed":
        shape = SHAPES[index % 3]
    if shape == "scattered":
        return rng.randbytes(32)
    if shape == "counting":
        return bytes(30) + index.to_bytes(2, "big")
    leading = rng.choice((1, 7, 8, 9, 29))
    return (b"\x5a" * leading + rng.randbytes(3)).ljust(32, b"\x5a")


def bulk(seed: int, size: int, shape: str) -> Content:
    rng = random.Random(seed)
    content = Content()
    while len(content) < size:
        content[bulk_key(shape, len(content), rng)] = value_of(len(content))
    return content


@st.composite
def near_keys(draw: st.DrawFn) -> bytes:
    """A key of equal bytes in which one or two differ: neighbours share long prefixes."""
    key = bytearray([draw(st.sampled_from((0x00, 0x5A, 0xFF)))] * 32)
    for position in draw(st.lists(st.sampled_from((0, 1, 7, 8, 15, 29, 30, 31)), min_size=1, max_size=2)):
        key[position] = draw(st.integers(0, 255))
    return bytes(key)


keys = st.one_of(near_keys(), st.binary(min_size=32, max_size=32))
values = st.integers(0, 3).map(value_of)
small_contents = st.dictionaries(keys, values, max_size=24).map(Content)


@st.composite
def contents(draw: st.DrawFn) -> Content:
    content = bulk(draw(st.integers(0, 9)), draw(st.sampled_from(SIZES)), draw(st.sampled_from(SHAPES)))
    return Content(content | draw(st.dictionaries(keys, values, max_size=4)))


@st.composite
def large_contents(draw: st.DrawFn) -> Content:
    return bulk(draw(st.integers(0, 9)), draw(st.sampled_from((256, 300))), draw(st.sampled_from(SHAPES)))


@st.composite
def keys_around(draw: st.DrawFn, content: Content, *, max_size: int = 8) -> list[bytes]:
    """Some keys of a map, some that differ from one of its keys in a single bit, some that are anywhere."""
    known = sorted(content)
    strategies = [keys]
    if known:
        strategies += [
            st.sampled_from(known),
            st.builds(with_bit_flipped, st.sampled_from(known), st.integers(0, 255)),
        ]
    return draw(st.lists(st.one_of(strategies), min_size=1, max_size=max_size))


def with_bit_flipped(key: bytes, position: int) -> bytes:
    return (int.from_bytes(key, "big") ^ 1 << (255 - position)).to_bytes(32, "big")


@st.composite
def contents_and_keys(draw: st.DrawFn) -> tuple[Content, list[bytes]]:
    content = draw(contents())
    return content, draw(keys_around(content))


@st.composite
def contents_and_changes(draw: st.DrawFn) -> tuple[Content, dict[bytes, bytes | None]]:
    content = draw(contents())
    changes: dict[bytes, bytes | None] = dict.fromkeys(draw(keys_around(content, max_size=12)))
    for key in changes:
        changes[key] = draw(st.none() | values)
    if draw(st.integers(0, 4)) == 0:  # sometimes a whole side goes
        prefix, bits = draw(keys), draw(st.integers(0, 6))
        changes |= dict.fromkeys(restricted(content, prefix, bits))
    return content, changes


def applied(content: Content, changes: Mapping[bytes, bytes | None]) -> Content:
    merged = {**content, **changes}
    return Content((key, value) for key, value in merged.items() if value is not None)


# The three ways in which a map is held: every node, a top over its own buckets, a top over buckets kept elsewhere.


def whole(content: Content) -> MerkleMap:
    return MerkleMap(LEVEL, critbit.build(LEVEL, content))


def buckets_of(content: Content, bits: int) -> dict[bytes, Content]:
    buckets: dict[bytes, Content] = {}
    for key, value in content.items():
        buckets.setdefault(masked(key, bits), Content())[key] = value
    return buckets


def over_buckets(content: Content, bits: int, load: Callable[[Stub], None] = lambda _: None) -> MerkleMap:
    buckets = buckets_of(content, bits)

    def loader(stub: Stub) -> Leaf | Inner:
        load(stub)
        node = critbit.build(LEVEL, buckets[stub[1]])
        assert node is not None
        assert len(node) != 2
        assert node[0] == stub[0]
        return node

    roots = {prefix: naive_root(bucket) for prefix, bucket in buckets.items()}
    return MerkleMap(LEVEL, critbit.build_top(LEVEL, roots), loader)


widths = st.one_of(st.integers(0, 12), st.sampled_from((31, 64, 65, 200, 247, 255, 256)))


class Holding(NamedTuple):
    """A way to hold a map; `bits` is the width of buckets kept elsewhere."""

    kind: str
    bits: int = 0

    def hold(self, content: Content) -> MerkleMap:
        if self.kind == "whole":
            return whole(content)
        return MerkleMap.of(LEVEL, content) if self.kind == "of" else over_buckets(content, self.bits)


holdings = st.one_of(
    st.sampled_from((Holding("whole"), Holding("of"))), st.builds(Holding, st.just("over buckets"), widths)
)


def assert_is_map_of(tree: MerkleMap, content: Content) -> None:
    """Root, order and values, and that what is held really hashes to what it says."""
    assert tree.root == naive_root(content)
    assert list(tree) == sorted(content.items())


# Shape and history


@some
@given(small_contents, st.randoms(use_true_random=False))
def test_root_does_not_depend_on_the_order_of_insertion(content: Content, rng: random.Random) -> None:
    order = list(content.items())
    rng.shuffle(order)
    node: Node | None = None
    for key, value in order:
        node = critbit.insert(LEVEL, node, key, value)
    assert_is_map_of(MerkleMap(LEVEL, node), content)


@some
@given(contents_and_keys(), holdings, st.data())
def test_root_does_not_depend_on_history(
    case: tuple[Content, list[bytes]], holding: Holding, data: st.DataObject
) -> None:
    content, pool = case
    tree = holding.hold(content)
    model = Content(content)
    for _ in range(data.draw(st.integers(1, 12))):
        key = data.draw(st.sampled_from(pool))
        if data.draw(st.booleans()):
            model[key] = data.draw(values)
            tree = tree.set(key, model[key])
        else:
            model.pop(key, None)
            tree = MerkleMap(LEVEL, critbit.delete(LEVEL, tree.node, key, tree.load), tree.load)
    assert_is_map_of(tree, model)


@some
@given(contents_and_keys(), holdings, values)
def test_setting_one_key_equals_building_again(
    case: tuple[Content, list[bytes]], holding: Holding, value: bytes
) -> None:
    content, pool = case
    tree = holding.hold(content)
    for key in pool:
        assert_is_map_of(tree.set(key, value), Content(content | {key: value}))
    assert_is_map_of(tree, content)


@some
@given(contents_and_changes(), holdings)
def test_updating_many_keys_equals_building_again(
    case: tuple[Content, dict[bytes, bytes | None]], holding: Holding
) -> None:
    content, changes = case
    tree = holding.hold(content)
    assert_is_map_of(tree.updated(changes), applied(content, changes))
    assert_is_map_of(tree, content)


@some
@given(contents_and_changes(), holdings)
def test_updating_at_once_equals_updating_one_by_one(
    case: tuple[Content, dict[bytes, bytes | None]], holding: Holding
) -> None:
    content, changes = case
    tree = holding.hold(content)
    one_by_one = tree
    for key, value in changes.items():
        one_by_one = one_by_one.updated({key: value})
    assert one_by_one.root == tree.updated(changes).root


@few
@given(contents(), holdings)
def test_removing_every_key_leaves_the_empty_map(content: Content, holding: Holding) -> None:
    emptied = holding.hold(content).updated(dict.fromkeys(content))
    assert emptied.node is None
    assert emptied.root == sha256(bytes([2, LEVEL])).digest()


@some
@given(contents_and_keys())
def test_map_of_equals_build(case: tuple[Content, list[bytes]]) -> None:
    content, asked = case
    held = MerkleMap.of(LEVEL, content)
    assert_is_map_of(held, content)
    assert held.root == whole(content).root
    assert [held.get(key) for key in asked] == [content.get(key) for key in asked]
    assert prove_map(held, asked) == prove(critbit.build(LEVEL, content), asked)


@some
@given(contents_and_keys(), widths)
def test_top_over_cached_buckets_equals_the_whole(case: tuple[Content, list[bytes]], bits: int) -> None:
    content, asked = case
    top = over_buckets(content, bits)
    assert_is_map_of(top, content)
    assert [top.get(key) for key in asked] == [content.get(key) for key in asked]
    assert prove_map(top, asked) == prove_map(whole(content), asked)


@few
@given(contents_and_changes(), widths)
def test_update_over_cached_buckets_opens_only_what_it_touches(
    case: tuple[Content, dict[bytes, bytes | None]], bits: int
) -> None:
    content, changes = case
    opened: list[bytes] = []
    top = over_buckets(content, bits, lambda stub: opened.append(stub[1]))
    assert top.updated(changes).root == naive_root(applied(content, changes))
    nearest = set()  # a new key also opens the bucket beside which it goes, to learn where the two part
    for key in changes:
        longest = max((critbit.first_difference(key, known) for known in content), default=0)
        nearest |= {masked(known, bits) for known in content if critbit.first_difference(key, known) == longest}
    assert len(opened) == len(set(opened))
    assert set(opened) <= nearest


# Prefixes


@st.composite
def prefix_cases(draw: st.DrawFn, source: st.SearchStrategy[Content]) -> tuple[Content, list[bytes], int]:
    content = draw(source)
    return content, draw(keys_around(content, max_size=4)), draw(st.integers(0, KEY_BITS))


def assert_prefix_roots(tree: MerkleMap, content: Content, prefixes: list[bytes], bits: int) -> None:
    for prefix in prefixes:
        for one in (prefix, masked(prefix, bits)):
            assert tree.prefix_root(one, bits) == naive_root(restricted(content, prefix, bits))


@some
@given(prefix_cases(contents()))
def test_prefix_root_is_the_root_of_the_keys_with_that_prefix(case: tuple[Content, list[bytes], int]) -> None:
    content, prefixes, bits = case
    assert_prefix_roots(whole(content), content, prefixes, bits)


@some
@given(prefix_cases(large_contents()))
def test_prefix_root_of_a_large_map_is_the_root_of_the_keys_with_that_prefix(
    case: tuple[Content, list[bytes], int],
) -> None:
    content, prefixes, bits = case
    assert_prefix_roots(MerkleMap.of(LEVEL, content), content, prefixes, bits)


@some
@given(prefix_cases(contents()), widths)
def test_prefix_root_over_cached_buckets_is_the_root_of_the_keys_with_that_prefix(
    case: tuple[Content, list[bytes], int], width: int
) -> None:
    content, prefixes, bits = case
    assert_prefix_roots(over_buckets(content, width), content, prefixes, bits)


@pytest.mark.parametrize("bits", range(KEY_BITS + 1))
def test_prefix_root_holds_at_every_width(bits: int) -> None:
    content = bulk(1, 30, "mixed")
    for prefix in [*list(content)[:6], bytes(32), b"\xff" * 32]:
        assert whole(content).prefix_root(prefix, bits) == naive_root(restricted(content, prefix, bits))


# Difference


@st.composite
def old_and_new(draw: st.DrawFn) -> tuple[Content, Content]:
    content, changes = draw(contents_and_changes())
    if draw(st.integers(0, 4)) == 0:
        return content, draw(contents())
    return content, applied(content, changes)


@some
@given(old_and_new(), holdings, holdings)
def test_diff_is_exactly_what_changed(pair: tuple[Content, Content], old_way: Holding, new_way: Holding) -> None:
    old, new = pair
    before, after = old_way.hold(old), new_way.hold(new)
    changes = list(critbit.diff(before.node, after.node, before.load, after.load))
    assert sorted(changes) == sorted(
        (key, old.get(key), new.get(key)) for key in old.keys() | new.keys() if old.get(key) != new.get(key)
    )
    assert before.updated({key: value for key, _, value in changes}).root == after.root


@few
@given(contents_and_keys(), widths, values)
def test_diff_never_opens_a_bucket_that_is_equal_on_both_sides(
    case: tuple[Content, list[bytes]], bits: int, value: bytes
) -> None:
    old, asked = case
    new = Content(old | {key: value for key in asked if key in old})  # other values and no other key: the tops agree
    opened: list[bytes] = []
    before = over_buckets(old, bits, lambda stub: opened.append(stub[1]))
    after = over_buckets(new, bits, lambda stub: opened.append(stub[1]))
    list(critbit.diff(before.node, after.node, before.load, after.load))
    changed = {masked(key, bits) for key in old if old[key] != new[key]}
    assert sorted(opened) == sorted([*changed, *changed])


# Proofs


@some
@given(contents_and_keys(), holdings)
def test_proof_shows_present_or_absent_for_any_key(case: tuple[Content, list[bytes]], holding: Holding) -> None:
    content, asked = case
    tree = holding.hold(content)
    for key in asked:
        assert ProvenMap(prove_map(tree, [key]), LEVEL, naive_root(content), "x").get(key) == content.get(key)


@some
@given(contents_and_keys(), holdings)
def test_proof_of_many_keys_answers_as_their_single_proofs_and_is_shorter(
    case: tuple[Content, list[bytes]], holding: Holding
) -> None:
    content, asked = case
    tree = holding.hold(content)
    together = prove_map(tree, asked)
    shown = ProvenMap(together, LEVEL, tree.root, "x")
    assert [shown.get(key) for key in asked] == [content.get(key) for key in asked]
    singles = {key: prove_map(tree, [key]) for key in asked}
    assert len(together) <= sum(map(len, singles.values()))
    assert len(together) < sum(map(len, singles.values())) or len(singles) == 1  # all share at least the root
    assert prove_map(tree, reversed(asked + asked)) == together


@some
@given(contents_and_keys())
def test_a_proof_is_used_up_by_the_keys_it_was_made_for_and_by_no_fewer(case: tuple[Content, list[bytes]]) -> None:
    content, asked = case
    tree = MerkleMap.of(LEVEL, content)
    proof = prove_map(tree, asked)
    shown = ProvenMap(proof, LEVEL, tree.root, "x")
    assert not shown.is_used
    for key in asked:
        shown.get(key)
    assert shown.is_used == bool(asked)
    for left_out in asked:
        others = [key for key in asked if key != left_out]
        fewer = ProvenMap(proof, LEVEL, tree.root, "x")
        for key in others:
            fewer.get(key)
        # Two keys may end at one leaf, and then either shows it.
        assert fewer.is_used == (bool(others) and prove_map(tree, others) == proof)


@some
@given(contents_and_keys(), st.integers(1, 40), st.integers(1, 40))
def test_proof_of_one_level_never_verifies_at_another(
    case: tuple[Content, list[bytes]], level: int, other: int
) -> None:
    assume(level != other)
    content, asked = case
    tree = MerkleMap.of(level, content)
    proof = prove_map(tree, asked)
    ProvenMap(proof, level, tree.root, "x")
    with pytest.raises(RejectedError) as refusal:
        ProvenMap(proof, other, tree.root, "x")
    assert refusal.value.code == "x-root"


@many
@given(contents_and_keys(), st.data())
def test_proof_with_a_byte_changed_is_rejected(case: tuple[Content, list[bytes]], data: st.DataObject) -> None:
    content, asked = case
    tree = MerkleMap.of(LEVEL, content)
    proof = bytearray(prove_map(tree, asked))
    proof[data.draw(st.integers(0, len(proof) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(RejectedError):
        ProvenMap(bytes(proof), LEVEL, tree.root, "x")


@some
@given(contents_and_keys(), st.data())
def test_proof_cut_or_spliced_is_rejected_or_answers_the_same(
    case: tuple[Content, list[bytes]], data: st.DataObject
) -> None:
    content, asked = case
    tree = MerkleMap.of(LEVEL, content)
    proof = prove_map(tree, asked)
    start, end = sorted((data.draw(st.integers(0, len(proof))), data.draw(st.integers(0, len(proof)))))
    middle = data.draw(st.binary(max_size=4) | st.just(proof[end:start:-1]) | st.just(proof))
    try:
        shown = ProvenMap(proof[:start] + middle + proof[end:], LEVEL, tree.root, "x")
        answers = {key: shown.get(key) for key in asked}
    except RejectedError:
        return
    assert answers == {key: content.get(key) for key in asked}


# Trees that nobody built honestly


class Hash(NamedTuple):
    digest: bytes


class Plain(NamedTuple):
    key: bytes
    value: bytes


class Fork(NamedTuple):
    depth: int
    left: Tree
    right: Tree


Tree = Hash | Plain | Fork


def digest_of(tree: Tree) -> bytes:
    if isinstance(tree, Hash):
        return tree.digest
    if isinstance(tree, Plain):
        return sha256(bytes([0, LEVEL]) + tree.key + tree.value).digest()
    return sha256(bytes([1, LEVEL, tree.depth]) + digest_of(tree.left) + digest_of(tree.right)).digest()


def encoded(tree: Tree) -> bytes:
    if isinstance(tree, Hash):
        return b"\2" + tree.digest
    if isinstance(tree, Plain):
        return b"\0" + tree.key + tree.value
    return bytes([1, tree.depth]) + encoded(tree.left) + encoded(tree.right)


def keys_in(tree: Tree) -> set[bytes]:
    if isinstance(tree, Fork):
        return keys_in(tree.left) | keys_in(tree.right)
    return {tree.key} if isinstance(tree, Plain) else set()


def random_tree(rng: random.Random, room: int, path: tuple[tuple[int, int], ...] = ()) -> Tree:
    """A tree that hashes, but whose keys may lie where no walk to them goes, and whose depths may go backwards."""
    if room and rng.random() < 0.85:
        last = path[-1][0] if path else -1
        depth = rng.randint(last + 1, min(last + 40, 255)) if last < 255 and rng.random() < 0.97 else rng.randrange(256)
        return Fork(depth, *(random_tree(rng, room - 1, (*path, (depth, side))) for side in (0, 1)))
    number = int.from_bytes(bytes([rng.choice((0x00, 0x5A, 0xFF))]) * 31 + rng.randbytes(1), "big")
    if rng.random() < 0.95:  # otherwise the key is most likely off its path
        for depth, side in path:
            number = number & ~(1 << (255 - depth)) | side << (255 - depth)
    return Plain(number.to_bytes(32, "big"), value_of(rng.randrange(3)))


def pruned(rng: random.Random, tree: Tree) -> Tree:
    if rng.random() < 0.15:
        return Hash(digest_of(tree))
    if isinstance(tree, Fork):
        return Fork(tree.depth, pruned(rng, tree.left), pruned(rng, tree.right))
    return tree


rooms = st.integers(0, 5)
generators = st.integers(0, 2**32).map(random.Random)


def answers_of(proof: bytes, root: bytes, asked: set[bytes]) -> dict[bytes, bytes | None]:
    """What a proof says about keys, where it says anything; nothing at all where it is rejected."""
    answers: dict[bytes, bytes | None] = {}
    try:
        shown = ProvenMap(proof, LEVEL, root, "x")
    except RejectedError:
        return answers
    for key in asked:
        try:
            answers[key] = shown.get(key)
        except RejectedError as refusal:
            assert refusal.code == "x-not-shown"  # noqa: PT017 — the other answers still count
    return answers


@many
@given(generators, rooms, st.lists(keys, max_size=3))
def test_no_root_proves_a_key_both_present_and_absent(rng: random.Random, room: int, others: list[bytes]) -> None:
    tree = random_tree(rng, room)
    root = digest_of(tree)
    asked = keys_in(tree).union(others)
    said: dict[bytes, bytes | None] = {}
    for _ in range(6):
        answers = answers_of(encoded(pruned(rng, tree)), root, asked)
        for key in answers.keys() & said.keys():
            assert answers[key] == said[key]
        said |= answers


@many
@given(generators, rooms)
def test_accepted_tree_answers_by_the_walk_of_its_key_alone(rng: random.Random, room: int) -> None:
    tree = random_tree(rng, room)

    def walked(key: bytes) -> bytes | None:
        node = tree
        while isinstance(node, Fork):
            node = node.right if key[node.depth // 8] >> (7 - node.depth % 8) & 1 else node.left
        assert isinstance(node, Plain)
        return node.value if node.key == key else None

    answers = answers_of(encoded(tree), digest_of(tree), keys_in(tree))
    for key, answer in answers.items():
        assert answer == walked(key)
        assert answer is not None  # a leaf that is shown is found: one off its path is never accepted


def is_well_formed(tree: Tree, path: tuple[tuple[int, int], ...] = ()) -> bool:
    if isinstance(tree, Plain):
        return all((tree.key[depth // 8] >> (7 - depth % 8) & 1) == side for depth, side in path)
    if isinstance(tree, Hash):
        return True
    deeper = not path or tree.depth > path[-1][0]
    return deeper and all(
        is_well_formed(child, (*path, (tree.depth, side))) for side, child in enumerate((tree.left, tree.right))
    )


@many
@given(generators, rooms)
def test_tree_is_accepted_exactly_if_its_depths_increase_and_its_leaves_are_on_their_paths(
    rng: random.Random, room: int
) -> None:
    tree = random_tree(rng, room)
    shown = pruned(rng, tree)
    if is_well_formed(shown):
        ProvenMap(encoded(shown), LEVEL, digest_of(tree), "x")
    else:
        with pytest.raises(RejectedError) as refusal:
            ProvenMap(encoded(shown), LEVEL, digest_of(tree), "x")
        assert refusal.value.code in {"x-depth", "x-off-path"}


def test_random_trees_are_honest_and_dishonest() -> None:
    kinds = {is_well_formed(random_tree(random.Random(seed), 5)) for seed in range(40)}
    assert kinds == {True, False}


# Bytes that are no proof


pieces = st.one_of(
    st.builds(lambda depth: bytes([1, depth]), st.integers(0, 255)),
    st.builds(lambda digest: b"\2" + digest, st.binary(min_size=32, max_size=32)),
    st.builds(lambda key, value: b"\0" + key + value, keys, values),
    st.just(b"\3"),
    st.binary(min_size=1, max_size=3),
)
junk = st.one_of(st.binary(max_size=200), st.lists(pieces, max_size=20).map(b"".join))


@many
@given(junk, st.integers(0, 300), st.binary(min_size=32, max_size=32))
def test_decoding_any_bytes_raises_nothing_but_rejection(data: bytes, cut: int, root: bytes) -> None:
    for proof in (data, data[:cut]):
        with pytest.raises(RejectedError):
            ProvenMap(proof, LEVEL, root, "x").get(root)


def test_loader_of_a_whole_map_is_never_asked() -> None:
    def refuse(stub: Stub) -> Leaf | Inner:
        raise AssertionError(stub)

    load: Loader = refuse
    content = bulk(3, 400, "mixed")
    node = critbit.build(LEVEL, content)
    assert [critbit.lookup(node, key, load) for key in content] == list(content.values())
    assert list(critbit.items(node, load)) == sorted(content.items())


@given(st.dictionaries(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32), max_size=40))
def test_a_root_without_a_tree_is_the_root_of_the_tree(content: dict[bytes, bytes]) -> None:
    near = {bytes(31) + bytes([number]): bytes(32) for number in range(len(content))}
    for one in (content, near, content | near):
        records = [key + value for key, value in one.items()]
        assert critbit.root_of(7, records) == MerkleMap.of(7, one).root


@given(st.lists(st.dictionaries(near_keys(), st.binary(min_size=32, max_size=32), min_size=1, max_size=9)))
def test_roots_of_many_maps_are_the_roots_of_each(contents: list[dict[bytes, bytes]]) -> None:
    near = {bytes(31) + bytes([number]): bytes(32) for number in range(5)}
    for many in (contents, [near, *contents, near, near]):
        groups = [[key + value for key, value in one.items()] for one in many]
        assert critbit.roots_of(7, groups) == [MerkleMap.of(7, one).root for one in many]


def test_roots_of_more_maps_than_one_pass_takes() -> None:
    contents = [bulk(number, 3, "mixed") for number in range(4000)]
    groups = [[key + value for key, value in one.items()] for one in contents]
    assert critbit.roots_of(7, groups) == [MerkleMap.of(7, one).root for one in contents]


def test_a_root_without_a_tree_is_the_root_of_a_large_tree() -> None:
    content = {number.to_bytes(32, "big"): bytes(32) for number in range(1000)}
    assert critbit.root_of(7, [key + value for key, value in content.items()]) == MerkleMap.of(7, content).root
