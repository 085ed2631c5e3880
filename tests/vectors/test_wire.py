"""The committed vectors of the wire, read from their files: the good ones are taken, each bad one has its own code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import wire_judge
import wire_publish
import wire_talks
from wire_world import Receiver

WIRE = Path(__file__).parents[2] / "protocol" / "vectors" / "wire"

# The defects that must each have a vector, whatever else there is.
DEFECTS = """
truncated-subset subset-with-another-parameter columns-of-different-length place-of-an-edge-out-of-range
edge-of-the-other-graph alias-of-the-standard-library-claimed external-with-a-package withdrawn-node-that-is-not-there
access-list-unsorted access-list-signed-by-another downgrade wrong-recipient clock-skew-late clock-skew-early
body-changed path-changed field-twice frame-without-its-size unpacks-to-more-than-the-limit ask-with-a-bad-prefix
pull-of-what-is-not-granted pull-of-what-does-not-exist pieces-of-a-head-that-moved another-root-for-one-size
log-that-became-another shorter-log-signed-later header-changed delta-that-withdraws-too-little nothing-answered
piece-changed invitation-cut-off invitation-mistyped access-list-by-a-revoked-key epoch-announced-by-a-revoked-key
epoch-after-another-end-of-the-last piece-that-consists-of-others 250001-lists extension-type leaves-from-2-to-the-53
evidence-signed-by-another-key evidence-of-one-root fork-of-two-sizes-without-a-place fork-with-the-same-leaf
rollback-whose-later-log-is-longer evidence-of-a-foreign-origin evidence-by-a-rotated-key-out-of-range
publish-on-a-stale-base publish-another-root publish-to-another-repository
"""


def vectors(*kinds: str) -> list[Any]:
    found = []
    for path in sorted(WIRE.glob("*.json")):
        document = json.loads(path.read_text())
        assert (document["format"], document["name"]) == ("knowing-wire-vectors/v1", path.stem)
        found += [
            pytest.param(one, id=f"{path.stem} {one['name']}") for one in document["vectors"] if one["kind"] in kinds
        ]
    assert found
    return found


def test_every_named_defect_has_a_vector() -> None:
    kinds = ("conversation", "request", "delta", "publish", *wire_judge.READERS)
    bad = {one.values[0]["name"] for one in vectors(*kinds) if "refused" in one.values[0]}
    assert {*DEFECTS.split()} <= bad


@pytest.mark.parametrize("vector", vectors(*wire_judge.READERS))
def test_a_vector_is_taken_or_refused_for_its_own_reason(vector: dict[str, Any]) -> None:
    found = wire_judge.judged(vector)
    assert found == {name: vector[name] for name in ("expect", "refused") if name in vector}


@pytest.mark.parametrize("vector", [one for one in vectors(*wire_judge.READERS) if "json" in one.values[0]])
def test_a_body_is_what_stands_beside_it(vector: dict[str, Any]) -> None:
    if "body" in vector:
        assert wire_judge.plain(wire_judge.body_of(vector)) == vector["json"]


@pytest.fixture(scope="module")
def talks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[wire_talks.Talks]:
    made = wire_talks.Talks(tmp_path_factory.mktemp("talks"))
    yield made
    made.close()


def test_conversations_lead_to_the_signed_roots(tmp_path: Path) -> None:
    good = {one.values[0]["name"]: one.values[0] for one in vectors("conversation") if "expect" in one.values[0]}
    for number, vector in enumerate(good.values()):
        receiver = Receiver(tmp_path / str(number))
        for name in vector["before"]:
            assert receiver.replay(wire_talks.exchanges_of(good[name]))[0]
        as_expected, result = receiver.replay(wire_talks.exchanges_of(vector))
        receiver.close()
        assert as_expected, vector["name"]
        assert {"modes": result.modes, "roots": result.roots} == vector["expect"]


@pytest.mark.parametrize("vector", [one for one in vectors("conversation") if "refused" in one.values[0]])
def test_answers_with_a_defect_change_nothing(vector: dict[str, Any], talks: wire_talks.Talks) -> None:
    receiver = talks.receiver(vector["before"])
    before = receiver.roots()
    _, result = receiver.replay(wire_talks.exchanges_of(vector))
    receiver.close()
    assert (result.code, result.roots) == (vector["refused"], before)
    assert result.evidence == ([vector["evidence"]] if "evidence" in vector else [])


@pytest.mark.parametrize("vector", vectors("delta"))
def test_deltas_lead_to_the_signed_roots_or_are_refused(vector: dict[str, Any], talks: wire_talks.Talks) -> None:
    assert talks.apply(vector["before"], wire_judge.body_of(vector)) == vector.get("refused", "")


@pytest.mark.parametrize("vector", vectors("request"))
def test_requests_are_answered_with_these_bytes_or_refused(vector: dict[str, Any], talks: wire_talks.Talks) -> None:
    endpoint = vector["endpoint"].removeprefix("/v1/")
    found = wire_talks.answered(talks.hubs["at 5"], endpoint, wire_judge.body_of(vector))
    assert found == {name: vector[name] for name in ("answer", "refused") if name in vector}


def test_publish_requests_lead_to_the_stated_roots_or_are_refused(tmp_path: Path) -> None:
    found = {one.values[0]["name"]: one.values[0] for one in vectors("publish")}
    hubs = wire_publish.Hubs(tmp_path)
    for vector in found.values():
        expected = {name: vector[name] for name in ("expect", "refused") if name in vector}
        assert hubs.judged(vector, found) == expected, vector["name"]


def test_what_is_not_granted_answers_like_what_does_not_exist(talks: wire_talks.Talks) -> None:
    found = {one.values[0]["name"]: one.values[0] for one in vectors("request")}
    names = ("pull-of-what-is-not-granted", "pull-of-what-does-not-exist")
    hidden, absent = (refusal_of(talks, found[name]) for name in names)
    assert hidden == absent


def refusal_of(talks: wire_talks.Talks, vector: dict[str, Any]) -> Any:
    with pytest.raises(Exception, match="no such repository") as caught:
        talks.hubs["at 5"].answer("pull", wire_judge.body_of(vector))
    return caught.value.as_json()  # type: ignore[attr-defined]
