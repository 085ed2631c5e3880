"""Disks that are full, files that are damaged, clocks that lie, and processes that die."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from knowing_migrations import Migration, migrations
from knowing_protocol.records import Records
from support.generated import Size, generate

from knowingd.config import Home
from knowingd.errors import KnowingError, StoreError
from knowingd.node import MAX_OPEN, Node
from knowingd.snapshot.snapshots import Told
from knowingd.store.database import APPLICATION_ID, Database
from knowingd.store.rows import Changes

TOLD = Told("1" * 40, "main", bytes(32))
ROOT = Path(__file__).parents[2]


def load(node: Node, seed: int) -> str:
    repo, records = generate(seed, Size(3, 30, 80))
    node.snapshot(repo, [Changes(0, records, Records())], TOLD)
    return repo


def database_of(node: Node, repo: str) -> Path:
    return node.home.repository(node.find(repo).database)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def overwrite_header(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(os.urandom(100))


def overwrite_page(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096 * 2)
        file.write(os.urandom(4096 * 6))


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 // 4096 * 4096)


def foreign(path: Path) -> None:
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()


def directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [overwrite_header, overwrite_page, truncate, foreign, directory])
def test_a_database_with_damage_names_itself_and_the_way_out_and_leaves_the_others_alone(
    home: Home, damage: Callable[[Path], None]
) -> None:
    with Node(home) as node:
        good, bad = load(node, 1), load(node, 2)
        path = database_of(node, bad)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    damage(path)
    with Node(home) as node:
        (report,) = node.fsck(bad)["repos"]
        assert report["errors"]
        if damage is not overwrite_page:  # SQLite's own words name pages and tables, not the file
            assert any(path.name in text for text in report["errors"])
        assert node.fsck(good)["ok"]
        assert node.log(good)
        every = node.fsck()
        assert [bool(one["errors"]) for one in every["repos"] if one["repo"] in (good, bad)].count(True) == 1
        node.remove(bad, purge=not path.is_dir())
        assert node.fsck()["ok"]
        assert [one["repo"] for one in node.repositories()] == [good]


def test_a_full_disk_is_a_clear_error_and_the_last_snapshot_stays(home: Home) -> None:
    with Node(home) as node:
        repo = load(node, 3)
        store = node.repository(node.find(repo))
        # SQLite's own limit fails where a full disk would, on demand.
        store.database.write(lambda connection: connection.execute("PRAGMA max_page_count = 1").fetchall())
        before = node.log(repo)
        _, more = generate(4, Size(20, 400, 2000), repo)
        with pytest.raises(StoreError, match="disk is full") as caught:
            node.snapshot(repo, [Changes(0, more, Records())], TOLD._replace(commit="2" * 40))
        assert caught.value.code == "disk-full"
        assert store.path.name in caught.value.message
        assert node.log(repo) == before
    with Node(home) as node:
        assert node.fsck()["ok"]
        header = node.snapshot(repo, [Changes(0, more, Records())], TOLD._replace(commit="2" * 40))
        assert header is not None
        assert header.index == 1


def test_a_directory_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    script = (
        "import os, sys; import knowingd.cli.node; from knowingd.cli import main\n"
        "os.getuid() or os.setuid(65534)  # for root nothing is read-only\n"
        "main(['init', '--home', sys.argv[1]])"
    )
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    for path in (tmp_path, *tmp_path.parents):
        if path == Path("/tmp") or not os.access(path, os.W_OK):
            break
        path.chmod(path.stat().st_mode | 0o055)
    done = subprocess.run(
        [sys.executable, "-c", script, str(locked / "home")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert str(locked) in done.stderr


def test_a_clock_that_was_set_back_does_not_make_history_run_backwards(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Node(home) as node:
        repo = load(node, 5)
        now = time.time()
        monkeypatch.setattr("knowingd.node.time.time", lambda: now - 10**7)
        node.snapshot(repo, [], TOLD._replace(commit="2" * 40))
        times = [header.time for header in node.store.headers()]
        assert times == sorted(times)
        assert node.fsck()["ok"]


def test_registered_repositories_do_not_mean_as_many_open_databases(home: Home) -> None:
    with Node(home) as node:
        for number in range(3 * MAX_OPEN):
            row = node.store.register(
                f"github.com/many/repo-{number}", "HEAD", node.keys.origin, path=None, local=True, now=1
            )
            node.repository(row)
        assert len(node._open) == MAX_OPEN
        handles = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0
        assert handles < 8 * MAX_OPEN
        assert len(node.repositories()) == 3 * MAX_OPEN
        assert len(node._open) == MAX_OPEN


# Migrations


def step(number: int, sql: str) -> Migration:
    return Migration(number, f"step_{number}", sql)


def test_a_migration_that_rewrites_data_is_preceded_by_a_backup(tmp_path: Path) -> None:
    first = step(1, "CREATE TABLE a (x INTEGER);\nINSERT INTO a VALUES (1);\n")
    second = step(2, "-- rewrites data\nUPDATE a SET x = 2;\n")
    path = tmp_path / "m.db"
    Database(path, "node", durable=False, steps=[first]).close()
    Database(path, "node", durable=False, steps=[first, second]).close()
    connection = sqlite3.connect(tmp_path / "m.db.before-0002")
    assert connection.execute("SELECT x FROM a").fetchall() == [(1,)]
    connection.close()


def test_a_migration_that_fails_leaves_the_database_as_it_was(tmp_path: Path) -> None:
    first = step(1, "CREATE TABLE a (x INTEGER);\n")
    broken = step(2, "CREATE TABLE b (y INTEGER);\nINSERT INTO nowhere VALUES (1);\n")
    path = tmp_path / "m.db"
    Database(path, "node", durable=False, steps=[first]).close()
    with pytest.raises(StoreError, match="nowhere"):
        Database(path, "node", durable=False, steps=[first, broken])
    connection = sqlite3.connect(path)
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    assert "b" not in names
    assert connection.execute("SELECT number FROM migration_history").fetchall() == [(1,)]
    connection.close()
    Database(path, "node", durable=False, steps=[first]).close()


def test_a_database_from_a_newer_version_is_refused_unharmed(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    steps = [step(1, "CREATE TABLE a (x INTEGER);\n"), step(2, "CREATE TABLE b (x INTEGER);\n")]
    Database(path, "node", durable=False, steps=steps).close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="newer version") as caught:
        Database(path, "node", durable=False, steps=steps[:1])
    assert caught.value.code == "newer-database"
    assert path.read_bytes() == before


def test_a_migration_that_was_changed_after_it_was_applied_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    Database(path, "node", durable=False, steps=[step(1, "CREATE TABLE a (x INTEGER);\n")]).close()
    with pytest.raises(StoreError, match="not the one that was applied"):
        Database(path, "node", durable=False, steps=[step(1, "CREATE TABLE a (y INTEGER);\n")])


@pytest.mark.parametrize("family", ["repository", "node"])
def test_every_database_says_whose_it_is_and_what_was_applied(tmp_path: Path, family: str) -> None:
    database = Database(tmp_path / "x.db", family, durable=False)
    with database.read() as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        applied = connection.execute("SELECT number, checksum FROM migration_history").fetchall()
    assert applied == [(one.number, one.checksum) for one in migrations(family)]
    database.close()


# Killed

WORKER = """
import sys
from pathlib import Path
from random import Random
sys.path[:0] = sys.argv[3:]
from knowing_migrations import Migration
from knowing_protocol.records import Records
from knowingd.config import Home
from knowingd.node import Node
from knowingd.snapshot.snapshots import Told
from knowingd.store.rows import Changes
from knowingd.store.database import Database
from support.generated import Size, generate
home = Path(sys.argv[1])
random = Random(int(sys.argv[2]))
repo, records = generate(9, Size(4, 50, 150))
print("started", flush=True)
with Node(Home(home)) as node:
    if not node.store.size():
        node.snapshot(repo, [Changes(0, records, Records())], Told("0" * 40, "main", bytes(32)))
    node.recover()
    for step in range(10**6):
        what = random.choice(["snapshot", "snapshot", "gc", "backup", "rotate", "migrate"])
        if what == "snapshot":
            part = Records(edges=random.sample(records.edges, 60))
            added, removed = (part, Records()) if random.random() < 0.5 else (Records(), part)
            told = Told(f"{random.getrandbits(160):040x}", "main", bytes(32))
            header = node.snapshot(repo, [Changes(0, added, removed)], told)
            if header is not None:
                print(header.index, header.commit, flush=True)
        elif what == "gc":
            node.gc(random.randrange(1, 4))
        elif what == "backup":
            target = home.parent / f"backup-{random.getrandbits(64):x}.tar"
            node.backup(target, with_key=True)
            print("backup", target, flush=True)
        elif what == "rotate":
            if len(node.key_chain.keys) < 20:
                node.rotate_key()
        else:
            # One more step each time; every one of them rewrites data and makes a backup first.
            count = len(list(home.parent.glob("migrated.db.before-*"))) + 2
            sql = "-- rewrites data\\nCREATE TABLE t{0} (x);\\nINSERT INTO t{0} VALUES ({0});\\n"
            steps = [Migration(n, f"m{n}", sql.format(n)) for n in range(1, count + 1)]
            Database(home.parent / "migrated.db", "node", durable=False, steps=steps).close()
"""
KILLS = int(os.environ.get("KNOWING_KILLS", "50"))


def test_killed_at_any_point_nothing_acknowledged_is_lost_and_no_index_is_signed_twice(tmp_path: Path) -> None:
    """Writes, snapshots, gc, migrations, backups and key rotations, killed at random moments."""
    random = Random(11)
    home = Home(tmp_path / "home")
    leaves: dict[int, bytes] = {}
    notes: dict[int, str] = {}
    for attempt in range(KILLS):
        worker = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(home.path), str(attempt), str(ROOT / "tests")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert worker.stdout is not None
        worker.stdout.readline()  # imports are done: from here on every moment is one of the store's
        time.sleep(random.uniform(0, 0.25))
        os.kill(worker.pid, signal.SIGKILL)
        out, errors = worker.communicate()
        assert "Traceback" not in errors, errors
        with Node(home) as node:
            node.recover()
            headers = {header.index: header for header in node.store.headers()}
            for line in out.splitlines(keepends=True):
                words = line.split()
                if line.endswith("\n") and words[0].isdigit():  # acknowledged
                    assert headers[int(words[0])].commit == words[1]
                elif line.endswith("\n") and words[0] == "backup":
                    assert Path(words[1]).exists()
            for index, header in headers.items():
                assert leaves.setdefault(index, header.leaf) == header.leaf
            for size, note in node.store.checkpoints():
                assert notes.setdefault(size, note) == note
            assert len(leaves) == len(headers)
            if attempt % 5 == 0 or attempt == KILLS - 1:
                report = node.fsck()
                assert report["ok"], report
    assert len(leaves) > KILLS / 2
    with Node(home) as node:
        for backup in list(tmp_path.glob("backup-*.tar"))[-3:]:
            from knowingd.snapshot.backup import restore_backup

            other = Home(tmp_path / backup.stem)
            restore_backup(backup, other)
            with Node(other) as back:
                assert back.fsck()["ok"]


def test_locks_die_with_their_process_and_say_who_holds_them(home: Home) -> None:
    script = (
        "import sys, time; from pathlib import Path; from knowingd.store.locks import exclusive\n"
        "with exclusive(Path(sys.argv[1]), 'x'):\n    print('held', flush=True); time.sleep(60)"
    )
    from knowingd.store.locks import exclusive

    lock = home.lock("repo")
    holder = subprocess.Popen([sys.executable, "-c", script, str(lock)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    holder.stdout.readline()
    with pytest.raises(KnowingError, match=f"process {holder.pid}"), exclusive(lock, "x", 0.1):
        pass
    holder.kill()
    holder.wait()
    holder.stdout.close()
    with exclusive(lock, "x", 1.0):
        pass
