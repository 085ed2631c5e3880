"""Laws of bundles: whatever is changed, the verifier rejects it or says the same."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from typing import Any

import negative
import positive
from hypothesis import given, settings
from hypothesis import strategies as st
from knowing_protocol.claims import Question, decide
from knowing_protocol.encoding import canonical_json
from knowing_protocol.graph import Graph
from knowing_protocol.hashing import NodeId
from knowing_protocol.prover import make_bundle
from knowing_protocol.snapshot_reader import SnapshotReader
from knowing_protocol.statement import statement_from_json
from knowing_protocol.trust import parse_trust
from knowing_protocol.verify import Report, verify_bundle
from positive import overlay, with_colons
from world import PAYMENTS, SHOP, TOOLS, Builder, payments, shop, tools, world

from knowingd import keys

CASES = [make() for make in positive.POSITIVE]
BUILDERS = (payments(), shop(), tools(), *map(Builder, (PAYMENTS, SHOP, TOOLS)), with_colons(), overlay())
# All whole graphs of the world by their roots, to tell what is true; an empty one has the same root everywhere.
GRAPHS = {made.root.hex(): made for made in (Graph(one.repo, one.records) for one in BUILDERS)}


@cache
def honest(index: int) -> Report:
    case = CASES[index]
    return verify_bundle(case.bundle.encode(), parse_trust(case.trust.encode()), keys.verify)


def same_or_rejected(index: int, data: bytes) -> None:
    report = verify_bundle(data, parse_trust(CASES[index].trust.encode()), keys.verify)
    if report.verdict != "rejected":
        assert report.statement == honest(index).statement
        assert report.not_covered == honest(index).not_covered
        assert report.entries == honest(index).entries


def true_or_rejected(index: int, bundle: dict[str, Any]) -> None:
    """A forger seals again; what is accepted then is decided by the whole graphs in the same way."""
    try:
        data = positive.sealed(bundle).encode()
    except UnicodeEncodeError:
        return
    report = verify_bundle(data, parse_trust(CASES[index].trust.encode()), keys.verify)
    if report.verdict != "rejected":
        statement = statement_from_json(bundle["statement"], "s")
        readers = [whole(bundle, entry.repository, entry.index) for entry in statement.scope]
        assert decide(statement.question, readers) == statement.answer


def whole(bundle: dict[str, Any], repository: str, index: int) -> SnapshotReader:
    """The whole graphs of an entry in scope."""
    for one in bundle["entries"]:
        header = one["header"]
        if (header["repository"], header["index"]) == (repository, index):
            return SnapshotReader(repository, [GRAPHS[header["source"]], GRAPHS[header["overlay"]]])
    raise LookupError(repository)


@settings(max_examples=600, deadline=None)
@given(st.data())
def test_a_bundle_with_any_byte_changed_is_rejected_or_says_the_same(data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(CASES) - 1))
    raw = bytearray(CASES[index].bundle.encode())
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] = data.draw(st.one_of(st.sampled_from(list(b'0129afAF"\\,:{}[]=-')), st.integers(0, 255)))
    same_or_rejected(index, bytes(raw))


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all fields and items."""
    found: list[tuple[Any, ...]] = []
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        found += [(*path, key), *places(item, (*path, key))]
    return found


def parent(bundle: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        bundle = bundle[key]
    return bundle


REPLACEMENTS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 5),
    st.sampled_from(["", "head", "commits", "calls", "references", "*", "python://a.b", "0" * 64, "HEAD"]),
    st.just([]),
    st.just({}),
)


@settings(max_examples=800, deadline=None)
@given(st.data())
def test_a_bundle_with_any_field_changed_is_rejected_or_says_the_same(data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(CASES) - 1))
    bundle = CASES[index].parts
    path = data.draw(st.sampled_from(places(bundle)))
    owner = parent(bundle, path)
    change = data.draw(st.sampled_from(["replace", "remove", "double", "copy", "swap"]))
    if change == "replace":
        owner[path[-1]] = data.draw(REPLACEMENTS)
    elif change == "remove":
        del owner[path[-1]]
    elif change == "double" and isinstance(owner, list):
        owner.insert(path[-1], deepcopy(owner[path[-1]]))
    elif change == "copy":
        other = data.draw(st.sampled_from(places(bundle)))
        owner[path[-1]] = deepcopy(parent(bundle, other)[other[-1]])
    elif isinstance(owner, list):
        other_index = data.draw(st.integers(0, len(owner) - 1))
        owner[path[-1]], owner[other_index] = owner[other_index], owner[path[-1]]
    same_or_rejected(index, positive.text(bundle).encode())
    true_or_rejected(index, bundle)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_parts_swapped_between_bundles_are_rejected_or_say_the_same(data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(CASES) - 1))
    other = CASES[data.draw(st.integers(0, len(CASES) - 1))].parts
    bundle = CASES[index].parts
    for part in data.draw(st.sets(st.sampled_from(["checkpoints", "entries", "rosters", "graphs"]), min_size=1)):
        bundle[part] = other[part]
    same_or_rejected(index, positive.text(bundle).encode())
    true_or_rejected(index, bundle)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_get_a_verdict(data: bytes) -> None:
    assert verify_bundle(data, None).verdict == "rejected"


def test_whitespace_and_field_order_change_nothing() -> None:
    for index, case in enumerate(CASES):
        shuffled = json.dumps(json.loads(case.bundle), indent=3, sort_keys=True)
        report = verify_bundle(shuffled.encode(), parse_trust(case.trust.encode()), keys.verify)
        assert report == honest(index)


def test_a_statement_read_and_written_again_is_the_same() -> None:
    for case in CASES:
        stated = case.parts["statement"]
        assert statement_from_json(stated, "s").as_json() == stated


def test_a_true_relation_is_never_provably_absent_and_the_reverse() -> None:
    node = world()
    readers = [node.graphs[one.header.index][0] for one in node.subjects()]
    symbols = sorted({one for reader in readers for one in reader._ids.values() if one.repo})
    assert len(symbols) > 10
    for source in symbols:
        for target in symbols:
            outcomes = {_holds(Question(claim, target, ("calls",), source), readers) for claim in CLAIM_PAIR}
            assert outcomes == {True, False}, (source, target)


CLAIM_PAIR = ("relation", "no-relation")


def _holds(question: Question, readers: list[Any]) -> bool:
    from knowing_protocol.errors import RejectedError

    vias = [None] if question.claim == "no-relation" else [None, *_vias(question.source, readers)]
    for via in vias:
        try:
            decide(question._replace(via=via), readers)
        except RejectedError:
            continue
        return True
    return False


def _vias(source: NodeId | None, readers: list[Any]) -> list[str]:
    """The names from outside that a source uses."""
    return [
        name.name
        for reader in readers
        for name in reader._ids.values()
        if name.kind == "external" and source is not None and reader.relation(source, name, "calls")
    ]


def test_making_a_bundle_twice_gives_the_same_bytes() -> None:
    node = world()
    made = [make_bundle(Question("callers", positive.CHARGE, ("calls",)), node.subjects()) for _ in range(2)]
    assert canonical_json(made[0]) == canonical_json(made[1])


def test_every_forgery_is_made_from_a_distinct_function() -> None:
    names = [make.__name__ for make, _ in negative.NEGATIVE]
    assert len(set(names)) == len(names)
