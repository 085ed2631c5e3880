"""`init`, `list`, `log`, `fsck` and `key`, run as a user would."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from knowing_protocol.records import Records
from support.generated import Size, generate

from knowingd.config import Home
from knowingd.node import Node
from knowingd.snapshot.snapshots import Told
from knowingd.store.rows import Changes


def knowing(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "knowingd", *arguments, "--home", str(home)], capture_output=True, text=True, check=False
    )


def told(home: Path, *arguments: str) -> Any:
    done = knowing(home, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    repo, records = generate(1, Size(4, 40, 120), "github.com/acme/shop")
    with Node(Home(tmp_path / "home")) as node:
        node.snapshot(repo, [Changes(0, records, Records())], Told("a" * 40, "main", bytes(32)))
    return tmp_path / "home"


def test_init_makes_a_key_that_only_its_owner_can_read(tmp_path: Path) -> None:
    first = told(tmp_path / "new", "init")
    assert told(tmp_path / "new", "init") == first
    (key,) = (tmp_path / "new" / "keys").iterdir()
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert told(tmp_path / "new", "key", "show")["node"] == first["node"]


def test_a_key_that_others_can_read_is_refused(home: Path) -> None:
    (key,) = (home / "keys").iterdir()
    key.chmod(0o644)
    done = knowing(home, "list")
    assert done.returncode == 1
    assert "can be read by others" in done.stderr
    assert "chmod 600" in done.stderr


def test_list_and_log_show_the_snapshot(home: Path) -> None:
    (one,) = told(home, "list")["repos"]
    assert (one["repo"], one["commit"], one["index"]) == ("github.com/acme/shop", "a" * 40, 0)
    for spelling in ("shop", "acme/shop", "https://github.com/Acme/shop.git"):
        (snapshot,) = told(home, "log", spelling)["snapshots"]
        assert snapshot["index"] == 0
    assert "the log is whole" in knowing(home, "log", "shop", "--verify").stdout
    assert "github.com/acme/shop" in knowing(home, "list").stdout


def test_an_unknown_repository_exits_4_with_a_way_out(home: Path) -> None:
    done = knowing(home, "log", "nothing")
    assert done.returncode == 4
    assert "knowing list" in done.stderr


def test_fsck_is_clean_and_of_nothing_too(home: Path, tmp_path: Path) -> None:
    assert told(home, "fsck")["ok"]
    assert told(tmp_path / "empty", "fsck")["ok"]


def test_fsck_of_a_damaged_database_exits_3_or_names_the_file(home: Path) -> None:
    (database,) = (home / "repos").glob("*.db")
    data = bytearray(database.read_bytes())
    for position in range(len(data) // 2, len(data) // 2 + 4096):
        data[position] ^= 0x5A
    database.write_bytes(bytes(data))
    done = knowing(home, "fsck")
    assert done.returncode in (1, 3)
    assert "Traceback" not in done.stderr


def test_a_foreign_file_in_place_of_a_database_is_named(home: Path) -> None:
    (database,) = (home / "repos").glob("*.db")
    database.write_bytes(b"this is no database" * 100)
    done = knowing(home, "list")
    assert done.returncode == 1
    assert str(database) in done.stderr
    assert "Traceback" not in done.stderr


def test_a_newer_database_is_refused_and_unharmed(home: Path) -> None:
    import sqlite3

    (database,) = (home / "repos").glob("*.db")
    connection = sqlite3.connect(database)
    connection.execute("INSERT INTO migration_history VALUES (999, 'future', 'x', 0)")
    connection.commit()
    connection.close()
    before = database.read_bytes()
    done = knowing(home, "list")
    assert done.returncode == 1
    assert "newer version" in done.stderr
    assert database.read_bytes() == before
