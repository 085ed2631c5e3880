"""Laws of what travels: packs and subsets come back as they were, and nothing else is taken for them."""

from __future__ import annotations

import copy
from math import comb, log2
from random import Random
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from knowing_protocol.errors import KnowingError, MalformedError
from knowing_protocol.hashing import NodeId, node_hash
from knowing_protocol.pack import (
    SHORT,
    Branch,
    Withdrawn,
    pack_records,
    pack_withdrawn,
    references,
    unpack_records,
    unpack_with_sites,
    unpack_withdrawn,
)
from knowing_protocol.records import Facts, Records, canonical_facts
from knowing_protocol.rice import decode_subset, encode_subset
from support.generated import Size, generate


@given(st.sets(st.integers(0, 5000)), st.integers(0, 50))
def test_a_subset_comes_back_as_it_was(members: set[int], beyond: int) -> None:
    universe = max(members, default=0) + 1 + beyond
    assert decode_subset(encode_subset(members, universe), len(members), universe) == sorted(members)


@given(st.binary(max_size=40), st.integers(0, 30), st.integers(0, 200))
def test_bytes_that_are_taken_for_a_subset_are_its_one_encoding(data: bytes, count: int, universe: int) -> None:
    try:
        found = decode_subset(data, count, universe)
    except MalformedError:
        return
    assert encode_subset(found, universe) == data


def test_a_random_subset_costs_little_more_than_its_entropy() -> None:
    random = Random(1)
    for universe, count in ((50_000, 500), (50_000, 10), (500_000, 1000), (1000, 900)):
        members = random.sample(range(universe), count)
        floor = log2(comb(universe, count)) / 8
        assert len(encode_subset(members, universe)) <= 1.06 * floor + 3


def by_nodes(records: Records) -> Any:
    hashes = {node_hash(*node) for node in records.nodes}

    def resolve(prefix: bytes) -> bytes:
        (found,) = [key for key in hashes if key.startswith(prefix)]
        return found

    return resolve


def same(a: Records, b: Records) -> bool:
    def plain(records: Records) -> tuple[Any, ...]:
        files = {
            file.path: (file.content, sorted(set(file.declarations)), sorted(file.sites)) for file in records.files
        }
        return (
            set(records.nodes),
            set(records.edges),
            set(records.aliases),
            set(records.members),
            records.facts,
            files,
            records.coverage,
        )

    return plain(a) == plain(b)


@given(st.integers(0, 1000))
@settings(max_examples=15, deadline=None)
def test_records_come_back_as_they_were(seed: int) -> None:
    repo, records = generate(seed, Size(4, 40, 150))
    wire = msgpack.unpackb(msgpack.packb(pack_records(records)), strict_map_key=False)
    assert same(unpack_records(repo, 0, wire, by_nodes(Records())), records)


@given(st.integers(0, 1000))
@settings(max_examples=10, deadline=None)
def test_nodes_that_the_receiver_has_are_named_and_not_sent(seed: int) -> None:
    repo, records = generate(seed, Size(4, 40, 150))
    part = copy.copy(records)
    part.nodes = records.nodes[::2]
    missing = {node_hash(*node) for node in records.nodes[1::2]}
    assert set(references(part)) <= missing
    wire = pack_records(part)
    assert len(wire[2][1]) == SHORT * len(references(part))
    assert same(unpack_records(repo, 0, wire, by_nodes(records)), part)


def test_call_sites_of_edges_that_the_receiver_has_keep_their_edges() -> None:
    repo, records = generate(3, Size(3, 30, 100))
    part = Records(files=records.files)
    wire = pack_records(part, records.edges)
    found, edges = unpack_with_sites(repo, 0, wire, by_nodes(records))
    assert same(found, part)
    assert {edge.hash for edge in edges} == {site.edge for file in records.files for site in file.sites}


def test_what_is_taken_away_comes_back_as_it_was() -> None:
    _, records = generate(5, Size(3, 30, 100))
    hashes = sorted(node_hash(*node) for node in records.nodes)
    gone = Withdrawn(
        tuple(hashes[:3]),
        (Branch("pkg", "calls", 2, encode_subset([1, 5], 9)),),
        (("python://a.b", hashes[4]),),
        ((hashes[0], "x", hashes[1]),),
        tuple(hashes[5:7]),
        ("a.py",),
        ("b.bin",),
    )
    assert unpack_withdrawn(msgpack.unpackb(msgpack.packb(pack_withdrawn(gone))), by_nodes(records)) == gone


def mutated(value: Any, random: Random) -> Any:
    """The same value with one thing in it changed."""
    if isinstance(value, list) and value and random.random() < 0.95:
        place = random.randrange(len(value))
        return [*value[:place], mutated(value[place], random), *value[place + 1 :]]
    return random.choice([None, True, -1, 2**70, "x\0", "", b"", b"\xff" * 9, [], [[]], {}, 1.5, value, [value, value]])


@pytest.mark.parametrize("part", range(10))
def test_a_mutated_pack_is_refused_or_read_and_never_crashes(part: int) -> None:
    random = Random(part)
    repo, records = generate(part, Size(3, 25, 80))
    wire = pack_records(records)
    resolve = by_nodes(records)

    def careful(prefix: bytes) -> bytes:
        try:
            found: bytes = resolve(prefix)
        except ValueError:
            raise MalformedError("unknown", code="unknown-node") from None
        return found

    for _ in range(300):
        try:
            unpack_with_sites(repo, 0, mutated(wire, random), careful)
        except KnowingError:
            continue


def test_an_edge_of_the_other_graph_is_refused() -> None:
    repo, records = generate(1, Size(2, 10, 20))
    with pytest.raises(MalformedError, match="other graph"):
        unpack_records(repo, 1, pack_records(records), by_nodes(records))


COLUMNS = {1: "ntb", 4: "nnn", 5: "ntnb", 6: "ntn", 7: "nt", 9: "tb"}
PLACES = [(table, column) for table, kinds in COLUMNS.items() for column in range(len(kinds))]


@pytest.mark.parametrize(("table", "column"), PLACES)
@pytest.mark.parametrize("kind", "ntb")
def test_a_column_of_another_kind_is_refused_even_if_all_of_it_is(table: int, column: int, kind: str) -> None:
    repo, records = generate(2, Size(3, 30, 80))
    wire = pack_records(records)
    count = len(wire[table][column])
    assert count
    if COLUMNS[table][column] == kind:
        return
    wire[table][column] = {"n": [0] * count, "t": ["x"] * count, "b": bytes(count)}[kind]
    with pytest.raises(MalformedError) as caught:
        unpack_with_sites(repo, 0, wire, by_nodes(records))
    assert caught.value.code == "pack"


@pytest.mark.parametrize("width", [8.0, True, "8", None, 12, 24])
def test_a_width_is_8_16_or_32_and_a_whole_number(width: Any) -> None:
    wire = pack_records(Records())
    wire[2] = [width, b""]
    with pytest.raises(MalformedError, match="width"):
        unpack_records("github.com/a/b", 0, wire, by_nodes(Records()))
    with pytest.raises(MalformedError, match="width"):
        unpack_withdrawn([width, *pack_withdrawn(Withdrawn())[1:]], by_nodes(Records()))


def test_facts_of_many_long_names_travel() -> None:
    node = NodeId("github.com/a/b", "p", "f", "function")
    facts = Facts(returns=tuple(f"python://{'m' * 200}.C{number}" for number in range(64)))
    records = Records(nodes=[node], facts={node_hash(*node): facts})
    found = unpack_records(node.repo, 0, pack_records(records), by_nodes(Records()))
    assert found.facts == {node_hash(*node): canonical_facts(facts)}
