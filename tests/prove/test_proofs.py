"""Bundles out of stored graphs: they verify elsewhere, say what the graphs say, and survive no change."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from knowing_protocol.claims import CALLERS, Question, decide
from knowing_protocol.critbit import items
from knowing_protocol.graph import MAP_LEVELS, Graph
from knowing_protocol.hashing import node_hash
from knowing_protocol.trust import Trust
from knowing_protocol.verify import REJECTED, VERIFIED, verify_bundle
from knowing_protocol.vocabulary import NodeKind
from support.cluster import Machine
from support.generated import Size

from knowingd import keys
from knowingd.errors import KnowingError
from knowingd.proofs import HasCallersError, HasRelationError, Made, Proofs
from knowingd.prove.graphs import ProvableGraph
from knowingd.resolve.graph import StoredGraph
from knowingd.snapshot.past import go_back
from knowingd.store.codes import EDGE_TYPE_CODES
from knowingd.store.repository import RepositoryStore

LIBRARY = {
    "pyproject.toml": '[project]\nname = "lib"\n[tool.setuptools]\npackages = ["lib"]\n',
    "lib/__init__.py": "from ._core import Client, make, unused\n",
    "lib/_core.py": "class Client:\n    def send(self):\n        pass\n\n\ndef make() -> Client:\n    return Client()\n"
    "\n\ndef unused():\n    pass\n",
}
BETWEEN = {
    "pyproject.toml": '[project]\nname = "between"\n[tool.setuptools]\npackages = ["between"]\n',
    "between/__init__.py": "from lib import make as build\n",
}
APPLICATION = {
    "app.py": "import hashlib\nimport between\nimport lib\n\n\ndef go():\n    lib.make().send()\n    between.build()\n"
    "\n\ndef check(x):\n    return hashlib.md5(x)\n",
}


def trust_of(*machines: Machine) -> Trust:
    nodes = {}
    for one in machines:
        nodes[one.federation.origin] = Proofs(one.node).trusted("node", ["*"])
    return Trust(nodes)


def verified(made: Made, trust: Trust) -> Any:
    data = json.dumps(made.bundle).encode()
    report = verify_bundle(data, trust, keys.verify)
    assert report.verdict == VERIFIED, (report.code, report.reason)
    return report


Make = Callable[[str], Machine]


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    root = tmp_path_factory.mktemp("code")
    for name, files in (("lib", LIBRARY), ("between", BETWEEN), ("application", APPLICATION)):
        for path, text in files.items():
            (root / name / path).parent.mkdir(parents=True, exist_ok=True)
            (root / name / path).write_text(text)
    command = [
        sys.executable,
        "-m",
        "knowingd.cli",
        "add",
        *(str(root / name) for name in ("lib", "between", "application")),
    ]
    subprocess.run([*command, "--home", str(root / "home"), "-q"], check=True)
    found = Machine(root / "home")
    yield found
    found.close()


def test_stored_maps_are_the_kernels(machine: Make) -> None:
    alice = machine("alice")
    repo = alice.add("acme/shop", 3, Size(6, 300, 2500))
    whole = Graph(repo, alice.records[repo])
    (row,) = alice.node.store.roster()
    with alice.node.lend(row) as store, store.read() as session:
        stored = ProvableGraph(StoredGraph(session), whole.root)
        assert stored.tree("graph").root == whole.root
        for name in MAP_LEVELS:
            tree = stored.tree(name)
            assert list(items(tree.node, tree.load)) == list(whole.tree(name))
        for package, types in whole.branches.items():
            found = stored.package_tree(package)
            assert found is not None
            assert found.root == whole.package_types[package].root
            for edge_type, branch in types.items():
                shown = stored.branch_tree(package, edge_type)
                assert shown is not None
                assert list(items(shown.node, shown.load)) == list(branch)
        for edge_type in EDGE_TYPE_CODES:
            for node in alice.records[repo].nodes:
                expected, got = (
                    whole.inbound_tree(edge_type, node_hash(*node)),
                    stored.inbound_tree(edge_type, node_hash(*node)),
                )
                assert (expected is None) == (got is None)
                if expected is not None and got is not None:
                    assert (expected[0].root, expected[1]) == (got[0].root, got[1])


def test_what_a_bundle_states_is_what_the_graphs_say(machine: Make) -> None:
    alice = machine("alice")
    repos = [alice.add("acme/one", 1), alice.add("acme/two", 2)]
    graphs = [Graph(repo, alice.records[repo]) for repo in repos]
    trust = trust_of(alice)
    random = Random(5)
    proofs = Proofs(alice.node)
    checked = 0
    for repo in repos:
        local = [node for node in alice.records[repo].nodes if node.repo and node.kind != NodeKind.EXTERNAL]
        for node in random.sample(local, 12):
            try:
                expected = decide(Question(CALLERS, node, ("calls",)), graphs)
                made = proofs.callers(node_hash(*node).hex(), ("calls",))
            except KnowingError:
                continue
            verified(made, trust)
            stated = made.bundle["statement"]
            assert len(stated.get("callers", [])) == len(expected.callers)
            checked += 1
    assert checked > 10


def test_a_relation_across_repositories_is_proven(code: Machine) -> None:
    proofs = Proofs(code.node)
    report = verified(proofs.relation("app:go", "lib.Client.send", "calls"), trust_of(code))
    assert 'calls the method "Client.send"' in report.statement
    assert len(report.entries) == 2


def test_a_relation_through_a_third_repository_is_proven(code: Machine) -> None:
    report = verified(Proofs(code.node).relation("app:go", "lib.make", "calls"), trust_of(code))
    assert "calls the function" in report.statement


def test_absence_fails_with_the_callers_shown(code: Machine) -> None:
    proofs = Proofs(code.node)
    for symbol in ("lib.make", "lib.Client.send", "python://hashlib.md5"):
        with pytest.raises(HasCallersError) as caught:
            proofs.callers(symbol, ("calls",), absent=True)
        assert caught.value.answer.callers


def test_absence_of_what_nobody_calls_is_proven(code: Machine) -> None:
    proofs = Proofs(code.node)
    report = verified(proofs.callers("lib.unused", ("calls",), absent=True, complete=True), trust_of(code))
    assert "all of the roster" in report.statement
    report = verified(proofs.callers("python://hashlib.sha1", ("calls",), absent=True), trust_of(code))
    assert 'no call of the name "python://hashlib.sha1"' in report.statement


def test_a_name_that_should_be_defined_and_is_not_is_refused(code: Machine) -> None:
    with pytest.raises(KnowingError):
        Proofs(code.node).callers("python://lib.nothing", ("calls",), absent=True)


def test_a_relation_that_was_not_seen_is_not_proven_and_its_absence_is(code: Machine) -> None:
    proofs = Proofs(code.node)
    with pytest.raises(KnowingError):
        proofs.relation("app:check", "lib.make", "calls")
    report = verified(proofs.no_relation("app:check", "lib.make", "calls"), trust_of(code))
    assert "no call goes directly from" in report.statement
    with pytest.raises(HasRelationError, match="not so: there is a relation 'calls' from go to make"):
        proofs.no_relation("app:go", "lib.make", "calls")


def test_a_replica_proves_under_its_origins_signature(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    repo = alice.add("acme/shop", 3)
    alice.serve()
    bob.modes(bob.join(alice, "github.com/acme/*"))
    node = next(node for node in alice.records[repo].nodes if node.kind == "function")
    made = Proofs(bob.node).callers(node_hash(*node).hex(), ("calls",))
    report = verified(made, trust_of(alice))
    assert report.checkpoints[0].origin == alice.federation.origin


def test_an_earlier_state_is_proven_as_long_as_it_is_kept(machine: Make) -> None:
    alice = machine("alice")
    repo = alice.add("acme/shop", 3)
    first = set(alice.records[repo].nodes)
    for seed in range(4):
        alice.edit(repo, seed)
        first &= set(alice.records[repo].nodes)
    proofs, trust = Proofs(alice.node), trust_of(alice)
    node = min(node for node in first if node.kind == "function")
    for index in (1, 0, 3):
        header = alice.node.store.header(index)
        made = proofs.callers(node_hash(*node).hex(), ("calls",), at=header.commit)
        report = verified(made, trust)
        assert [entry["index"] for entry in report.entries] == [index]
        assert header.commit in report.statement
    with pytest.raises(KnowingError) as caught:
        proofs.callers(node_hash(*node).hex(), ("calls",), at="ffffffff")
    assert caught.value.exit_code == 4
    alice.node.gc(1)
    with pytest.raises(KnowingError) as caught:
        proofs.callers(node_hash(*node).hex(), ("calls",), at=alice.node.store.header(0).commit)
    assert (caught.value.code, caught.value.exit_code) == ("pruned", 4)


@pytest.mark.parametrize("seed", range(6))
def test_every_kept_state_can_be_made_again(machine: Make, tmp_path: Path, seed: int) -> None:
    alice = machine("alice")
    repo = alice.add("acme/shop", seed)
    for step in range(5):
        alice.edit(repo, seed * 10 + step)
    (row,) = alice.node.store.roster()
    with alice.node.lend(row) as store:
        with store.read() as session:
            snapshots = session.snapshots()
        for snapshot in snapshots:
            target = tmp_path / f"{snapshot.sequence}.db"
            store.copy_to(target)
            copy = RepositoryStore(target, row.url, row.ref, row.origin)
            go_back(copy, snapshot)  # refuses where the roots are others
            copy.close()


def test_a_damaged_database_makes_no_proof(machine: Make) -> None:
    alice = machine("alice")
    repo = alice.add("acme/shop", 3)
    node = next(node for node in alice.records[repo].nodes if node.kind == "function")
    (row,) = alice.node.store.roster()
    with alice.node.lend(row) as store:
        store.database.write(
            lambda connection: connection.execute("UPDATE tree_blocks SET roots = zeroblob(length(roots))").close()
        )
    with pytest.raises(KnowingError):
        Proofs(alice.node).callers(node_hash(*node).hex(), ("calls",))


def mutated(value: Any, random: Random) -> Any:
    if isinstance(value, dict) and value and random.random() < 0.97:
        key = random.choice(sorted(value))
        return {**value, key: mutated(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.97:
        place = random.randrange(len(value))
        if random.random() < 0.15:
            return value[:place] + value[place + 1 :]
        return [*value[:place], mutated(value[place], random), *value[place + 1 :]]
    if isinstance(value, str) and value:
        place = random.randrange(len(value))
        return value[:place] + random.choice("0123456789abcdefAB=/.x") + value[place + 1 :]
    return random.choice([None, 0, 1, "", [], {}, -1, True, value])


def test_no_mutation_of_a_real_bundle_is_accepted_with_another_statement(code: Machine) -> None:
    proofs, trust = Proofs(code.node), trust_of(code)
    bundles = [
        proofs.relation("app:go", "lib.Client.send", "calls").bundle,
        proofs.callers("lib.unused", ("calls",), absent=True).bundle,
        proofs.callers("lib.make", ("calls", "references")).bundle,
    ]
    random = Random(11)
    for number in range(3000):
        bundle = bundles[number % len(bundles)]
        changed = mutated(bundle, random)
        if changed == bundle:
            continue
        report = verify_bundle(json.dumps(changed).encode(), trust, keys.verify)
        assert report.verdict == REJECTED, changed


def test_the_commands_make_what_the_single_file_verifies(code: Machine, tmp_path: Path) -> None:
    def knowing(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "knowingd.cli", *words, "--home", str(code.home)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    bundle, trust = tmp_path / "bundle.json", tmp_path / "trust.json"
    done = knowing("prove-callers", "lib.make", "--all", "-o", str(bundle), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["repos"] == 3
    assert knowing("trust", "export", "-o", str(trust)).returncode == 0
    verify = [sys.executable, "-m", "knowing_protocol", "verify", str(bundle), "--trust", str(trust), "--json"]
    report = json.loads(subprocess.run(verify, capture_output=True, text=True, check=False).stdout)
    assert report["verdict"] == "verified"
    done = knowing("prove-absent", "--callers-of", "lib.make", "-o", str(tmp_path / "no.json"), "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["error"]["code"] == "callers-found"
    assert not (tmp_path / "no.json").exists()
