"""Which repositories a statement is about."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from knowing_protocol.trust import Trust, TrustedNode
from knowing_protocol.verify import VERIFIED, verify_bundle
from prove.fuzz import packed
from prove.make_bundles import SAMPLES
from support.cluster import Machine

from knowingd import keys
from knowingd.errors import NotFoundError, UsageError
from knowingd.proofs import HasCallersError, Made, Proofs


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    root = tmp_path_factory.mktemp("code")
    samples = {**SAMPLES, "apart": {"apart.py": "def alone():\n    pass\n"}}
    for name, files in samples.items():
        for path, text in files.items():
            (root / name / path).parent.mkdir(parents=True, exist_ok=True)
            (root / name / path).write_text(text)
    command = [sys.executable, "-m", "knowingd.cli", "add", *(str(root / name) for name in samples)]
    subprocess.run([*command, "--home", str(root / "home"), "-q"], check=True)
    found = Machine(root / "home")
    yield found
    found.close()


def scope_of(made: Made, machine: Machine) -> list[str]:
    trust = Trust({machine.federation.origin: Proofs(machine.node).trusted("node", ["*"])})
    report = verify_bundle(packed(made.bundle), trust, keys.verify)
    assert report.verdict == VERIFIED, (report.code, report.reason)
    return [one["repository"] for one in made.bundle["statement"]["scope"]]


def test_a_relation_takes_only_the_repositories_on_the_way(origin: Machine) -> None:
    made = Proofs(origin.node).relation("app:go", "lib.make", "calls")
    assert scope_of(made, origin) == ["local/application", "local/between", "local/lib"]


def test_a_pattern_that_matches_nothing_is_refused_though_the_symbol_has_a_home(origin: Machine) -> None:
    with pytest.raises(NotFoundError, match="no repository matches 'nothing'"):
        Proofs(origin.node).callers("lib.unused", ("calls",), "nothing", absent=True)


def test_a_library_that_uses_its_own_function_does_not_stand_in_the_way(origin: Machine) -> None:
    proofs = Proofs(origin.node)
    with pytest.raises(HasCallersError):
        proofs.callers("lib.make", ("imports",), "lib", absent=True)  # its own `__init__` does
    made = proofs.callers("lib.make", ("imports",), "apart", absent=True)
    assert scope_of(made, origin) == ["local/apart", "local/lib"]
    assert made.bundle["statement"]["by"] == ["local/apart"]
    made = proofs.callers("lib.make", ("calls",), "application")
    assert {one["repository"] for one in made.bundle["statement"]["callers"]} == {"local/application"}
    assert "by" not in proofs.callers("lib.make", ("calls",)).bundle["statement"]


def verdict(made: Made, trusted: TrustedNode, machine: Machine) -> tuple[str, str]:
    report = verify_bundle(packed(made.bundle), Trust({machine.node.keys.origin: trusted}), keys.verify)
    return report.verdict, report.code


def test_bundles_show_that_the_log_has_grown_from_every_state_in_a_trust_file(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "home")
    machine.add("acme/one", 1)
    early = Proofs(machine.node).trusted("early", ["*"])
    old = Proofs(machine.node).callers("python://hashlib.md5", ("calls",), absent=True)
    machine.add("acme/two", 2)
    later = Proofs(machine.node).trusted("later", ["*"])
    machine.add("acme/three", 3)
    new = Proofs(machine.node).callers("python://hashlib.md5", ("calls",), absent=True)
    assert verdict(new, early, machine) == verdict(new, later, machine) == (VERIFIED, "verified")
    assert verdict(old, early, machine) == (VERIFIED, "verified")
    assert verdict(old, later, machine) == ("rejected", "older-than-pin")
    unpinned = Proofs(machine.node).trusted("unpinned", ["*"], pinned=False)
    assert unpinned.pins == ()
    assert verdict(old, unpinned, machine) == (VERIFIED, "verified")
    machine.close()


def test_a_replica_shows_growth_from_the_trust_file_of_whoever_will_check(tmp_path: Path) -> None:
    alice, bob = Machine(tmp_path / "alice"), Machine(tmp_path / "bob")
    alice.add("acme/one", 1)
    pinned = Proofs(alice.node).trusted("alice", ["*"])
    alice.add("acme/two", 2)
    alice.serve()
    bob.modes(bob.join(alice, "*"))
    asked = ("python://hashlib.md5", ("calls",))
    assert verdict(Proofs(bob.node).callers(*asked, absent=True), pinned, alice) == ("cannot-tell", "pin-not-extended")
    shown = Proofs(bob.node, Trust({alice.node.keys.origin: pinned})).callers(*asked, absent=True)
    assert verdict(shown, pinned, alice) == (VERIFIED, "verified")
    assert not shown.own
    bob.close()
    alice.stop()
    alice.close()


def test_the_end_of_a_url_will_do_for_all_of_a_roster(origin: Machine) -> None:
    proofs = Proofs(origin.node)
    made = proofs.callers("lib.unused", ("calls",), "lib", absent=True, complete=True)
    assert made.bundle["statement"]["all_of"]["pattern"] == "*/lib"
    assert scope_of(made, origin) == ["local/lib"]
    with pytest.raises(UsageError, match="which defines the symbol"):
        proofs.callers("lib.unused", ("calls",), "apart", absent=True, complete=True)


def test_a_node_without_repositories_of_its_own_says_why_it_cannot_speak_of_all(
    origin: Machine, tmp_path: Path
) -> None:
    other = Machine(tmp_path / "other")
    origin.serve()
    other.modes(other.join(origin, "*"))
    with pytest.raises(UsageError, match="no repositories of its own"):
        Proofs(other.node).callers("lib.unused", ("calls",), absent=True, complete=True)
    other.close()
    origin.stop()


def test_a_log_that_grows_between_two_proofs_is_seen(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "home")
    machine.add("acme/one", 1)
    proofs = Proofs(machine.node)
    first = proofs.callers("python://hashlib.md5", ("calls",), absent=True, complete=True)
    machine.add("acme/two", 2)
    second = proofs.callers("python://hashlib.md5", ("calls",), absent=True, complete=True)
    assert [len(scope_of(made, machine)) for made in (second,)] == [2]
    assert len(first.bundle["statement"]["scope"]) == 1
    machine.close()
