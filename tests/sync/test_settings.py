"""`knowing.toml`: what it says counts, what is wrong in it is said in a sentence, and it is read when it changes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.cluster import Machine

from knowingd.errors import StoreError, UsageError
from knowingd.settings import FileGrant, read_settings

Make = Callable[[str], Machine]


def test_no_file_means_the_defaults(tmp_path: Path) -> None:
    assert read_settings(tmp_path).listen is None
    assert read_settings(tmp_path).grants == ()


def test_a_file_says_how_to_serve_limits_and_grants(tmp_path: Path) -> None:
    (tmp_path / "knowing.toml").write_text(
        '[serve]\nlisten = "0.0.0.0:1"\nbehind_proxy = true\n[limits]\nmin_free_mb = 3\n'
        '[grants]\nalice = ["github.com/a/*", {pattern = "github.com/b/c", relay = true}]\n'
    )
    found = read_settings(tmp_path)
    assert (found.listen, found.behind_proxy, found.min_free) == ("0.0.0.0:1", True, 3 << 20)
    assert found.grants == (
        FileGrant("alice", "github.com/a/*", relay=False),
        FileGrant("alice", "github.com/b/c", relay=True),
    )


@pytest.mark.parametrize(
    "text",
    [
        "not toml",
        "[server]\n",
        "[serve]\nlisten = 7\n",
        '[serve]\nlistn = "x"\n',
        '[serve]\ntls_cert = "x"\n',
        "[limits]\nmin_free_mb = -1\n",
        "[limits]\nmin_free_mb = true\n",
        '[grants]\nalice = "x"\n',
        "[grants]\nalice = [7]\n",
        "serve = 3\n",
    ],
)
def test_what_is_wrong_in_the_file_is_refused_in_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "knowing.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        read_settings(tmp_path)
    assert str(tmp_path / "knowing.toml") in caught.value.message


def test_a_nearly_full_disk_stops_taking_in_and_not_answering(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop = alice.add("acme/shop")
    alice.serve()
    peer = bob.join(alice, "github.com/acme/*")
    (bob.home / "knowing.toml").write_text("[limits]\nmin_free_mb = 100000000\n")
    (outcome,) = bob.sync(peer).outcomes
    assert isinstance(outcome.error, StoreError)
    assert outcome.error.code == "low-disk"
    assert bob.node.repositories() == []
    (bob.home / "knowing.toml").unlink()
    assert bob.modes(peer) == {shop: "full"}


def test_a_running_node_gives_and_ends_the_grants_of_its_file(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop = alice.add("acme/shop")
    alice.serve()
    peer = bob.join(alice)
    assert bob.modes(peer) == {}
    name = bob.federation.origin.hex()[:16]
    file = alice.home / "knowing.toml"
    file.write_text(f'[grants]\n"{name}" = ["github.com/acme/*"]\n')
    assert eventually(lambda: bob.modes(peer) == {shop: "full"})
    file.write_text("[grants]\n")
    assert eventually(lambda: alice.federation.peers.grants() == [])


def eventually(condition: Callable[[], bool], seconds: float = 15) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return False


def test_status_shows_repositories_peers_and_evidence(machine: Make) -> None:
    alice, bob = machine("alice"), machine("bob")
    shop = alice.add("acme/shop")
    alice.serve()
    bob.modes(bob.join(alice, "github.com/acme/*"))
    command = [sys.executable, "-m", "knowingd.cli", "status", "--json", "--home", str(bob.home)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["node"] == bob.federation.origin.hex()
    assert [one["repo"] for one in found["repos"]] == [shop]
    assert [one["origin"] for one in found["peers"]] == [alice.federation.origin.hex()]
    assert found["evidence"] == 0
