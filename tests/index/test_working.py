"""Working views: uncommitted files for local questions, on top of a signed base that never learns of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from index.test_incremental import FILES, edited
from knowing_protocol.graph import Graph
from knowing_protocol.records import Records
from source.making import Repository

from knowingd.config import Home
from knowingd.errors import NotFoundError, StoreError
from knowingd.node import Node, Options, Result
from knowingd.query.symbols import meant
from knowingd.snapshot.backup import restore_backup
from knowingd.snapshot.fsck import check_repository
from knowingd.source import Location
from knowingd.store.records import read_records
from knowingd.store.repository import RepositoryStore
from knowingd.store.working import new_path, views_of

ROOT = Path(__file__).parents[2]


class Shop:
    """A node and one repository with a work tree."""

    def __init__(self, place: Path) -> None:
        self.made = Repository(place / "shop")
        self.put(FILES)
        self.made.commit()
        self.node = Node(Home(place / "home"))
        self.add()

    def put(self, files: dict[str, str]) -> None:
        for path in [one for one in self.made.path.rglob("*") if one.is_file() and ".git" not in one.parts]:
            path.unlink()
        for name, text in files.items():
            self.made.write(name, text)

    def add(self) -> Result:
        return self.node.add(Location(path=self.made.path), url="local/shop", options=Options())

    def index(self, *, full: bool = False) -> Result:
        return self.node.index(self.node.find("shop"), options=Options(full=full))

    @property
    def database(self) -> Path:
        return self.node.home.repository(self.node.find("shop").database)

    @property
    def views(self) -> list[Path]:
        return views_of(self.database)

    def base(self) -> Records:
        with self.node.repository(self.node.find("shop")).read() as session:
            return read_records(session, 0)

    def view(self) -> Records:
        (path,) = self.views
        row = self.node.find("shop")
        store = RepositoryStore(path, row.url, row.ref, row.origin, create=False)
        try:
            with store.read() as session:
                return read_records(session, 0)
        finally:
            store.close()

    def state(self) -> tuple[int, str, bytes]:
        """What the node signed, and the base as it is on disk."""
        return self.node.store.size(), self.node.store.checkpoint(), Graph("local/shop", self.base()).root


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    found = Shop(tmp_path)
    yield found
    found.node.close()


def plain(records: Records) -> Records:
    """Records in an order of their own."""
    return Records(
        sorted(records.nodes),
        sorted(records.edges),
        sorted(records.aliases),
        sorted(records.members),
        dict(sorted(records.facts.items())),
        [
            replace(file, declarations=tuple(sorted(file.declarations)), sites=tuple(sorted(file.sites)))
            for file in sorted(records.files, key=lambda file: file.path)
        ],
        dict(sorted(records.coverage.items())),
    )


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6))
def test_a_view_is_the_graph_of_a_commit_with_the_same_content(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    random = Random(seed)
    shop = Shop(tmp_path_factory.mktemp("law"))
    files = dict(FILES)
    for _ in range(3):
        signed = shop.state()
        for _ in range(random.randrange(1, 4)):
            files = edited(files, random)
            shop.put(files)
            shop.index()
        assert shop.state() == signed
        view = plain(shop.view()) if shop.views else plain(shop.base())
        named = shop.index().working
        shop.made.commit()
        snapshot = shop.index().snapshot
        assert named is None or named["snapshot"] == snapshot
        assert shop.views == []
        assert plain(shop.base()) == view
        assert shop.node.fsck()["ok"]
    shop.node.close()


def test_a_view_holds_together_like_any_database(shop: Shop) -> None:
    shop.made.write("shop/prices.py", FILES["shop/prices.py"] + "\n\ndef rebate(x):\n    return total(x)\n")
    (shop.made.path / "shop/use.py").unlink()
    shop.made.write("shop/fresh.py", "from shop.prices import rebate\n\n\ndef buy():\n    rebate(1)\n")
    found = shop.index()
    assert found.working is not None
    assert (found.working["files"], found.working["parsed"]) == (3, 2)
    (path,) = shop.views
    row = shop.node.find("shop")
    store = RepositoryStore(path, row.url, row.ref, row.origin, create=False)
    errors = check_repository(store).errors
    store.close()
    # Its caches are right; that it is not the newest snapshot's graph is what it is for.
    assert errors == ["the source graph is not the one that its newest snapshot names"]


def test_a_view_costs_what_changed_and_copies_the_base_once(shop: Shop) -> None:
    assert shop.index().working is None
    assert shop.views == []
    size = shop.node.store.size()
    shop.made.write("shop/use.py", FILES["shop/use.py"] + "\n\ndef one():\n    main()\n")
    first = shop.index()
    (path,) = shop.views
    shop.made.write("shop/use.py", FILES["shop/use.py"] + "\n\ndef two():\n    main()\n")
    second = shop.index()
    assert shop.views == [path]
    assert first.working is not None
    assert second.working is not None
    assert (first.parsed, first.working["parsed"], second.working["parsed"]) == (0, 1, 1)
    third = shop.index()
    assert third.working is not None
    assert (third.working["parsed"], third.working["snapshot"]) == (0, second.working["snapshot"])
    assert shop.node.store.size() == size
    assert "two" in {node.name for node in shop.view().nodes}
    assert {"one", "two"}.isdisjoint(node.name for node in shop.base().nodes)


def test_a_clean_work_tree_has_no_view(shop: Shop) -> None:
    shop.made.write("shop/use.py", "def other():\n    pass\n")
    shop.index()
    shop.made.git("checkout", "-q", "--", ".")
    assert shop.index().working is None
    assert shop.views == []
    assert sorted(path.name for path in shop.database.parent.iterdir() if "working" in path.name) == []


def test_a_change_that_no_extractor_reads_needs_no_view(shop: Shop) -> None:
    shop.made.write("README.md", "# another\n")
    assert shop.index().working is None
    shop.made.write("notes.txt", "a file more is something that the graph does not speak for\n")
    assert shop.index().working is not None


def test_ignored_files_are_not_in_a_view(shop: Shop) -> None:
    shop.made.write(".git/info/exclude", "local.py\n")
    shop.made.write("local.py", "def mine():\n    pass\n")
    assert shop.index().working is None


def test_another_ref_has_no_view(shop: Shop) -> None:
    shop.made.write("shop/use.py", "def other():\n    pass\n")
    shop.node.index(shop.node.find("shop"), ref="main", options=Options())
    assert shop.views == []


def test_a_view_of_another_base_is_made_anew(shop: Shop) -> None:
    shop.made.write("shop/use.py", "def other():\n    pass\n")
    shop.index()
    (old,) = shop.views
    shop.made.write("shop/prices.py", "def total(x):\n    return 2\n")
    shop.made.git("commit", "-q", "-m", "one of the two", "shop/prices.py")
    found = shop.index()
    assert found.working is not None
    assert found.working["files"] == 1
    (new,) = shop.views
    assert new != old
    view = plain(shop.view())
    shop.made.commit()
    shop.index()
    assert plain(shop.base()) == view


def test_a_full_index_copies_the_base_again(shop: Shop) -> None:
    shop.made.write("shop/use.py", "def other():\n    pass\n")
    shop.index()
    (old,) = shop.views
    view = plain(shop.view())
    shop.index(full=True)
    (new,) = shop.views
    assert new != old
    assert plain(shop.view()) == view


def test_a_damaged_view_is_made_anew(shop: Shop) -> None:
    shop.made.write("shop/use.py", "def other():\n    pass\n")
    shop.index()
    (path,) = shop.views
    view = plain(shop.view())
    content = bytearray(path.read_bytes())
    content[4096:] = os.urandom(len(content) - 4096)
    path.write_bytes(content)
    shop.made.write("shop/use.py", "def other():\n    pass\n\n")
    shop.index()
    shop.made.write("shop/use.py", "def other():\n    pass\n")
    shop.index()
    assert plain(shop.view()) == view


def test_a_work_tree_that_cannot_be_read_leaves_the_commit_indexed_and_a_word(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    from knowingd.source import SourceError
    from knowingd.source.working import WorkingView

    def refuse(_: WorkingView) -> object:
        raise SourceError("this version of git is not known here", code="git-failed")

    shop.made.write("shop/use.py", "def other():\n    pass\n")
    monkeypatch.setattr(WorkingView, "_index", refuse)
    found = shop.index()
    assert found.working is None
    assert found.notes == ("uncommitted changes were not read: this version of git is not known here",)


def test_a_file_that_is_written_while_it_is_read_is_read_again(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    from knowingd.source.disk import Beneath

    real, calls = Beneath.read, []

    def read(beneath: Beneath, path: bytes, limit: int) -> bytes | None:
        calls.append(path)
        if len(calls) == 2:  # listed, and now to be read
            shop.made.write("shop/use.py", "def later():\n    pass\n")
        return real(beneath, path, limit)

    shop.made.write("shop/use.py", "def sooner():\n    pass\n")
    monkeypatch.setattr(Beneath, "read", read)
    shop.index()
    names = {node.name for node in shop.view().nodes}
    assert "later" in names
    assert "sooner" not in names
    assert "shop/use.py" not in shop.view().coverage


def test_gc_and_remove_take_views_away_and_backups_leave_them_out(shop: Shop, tmp_path: Path) -> None:
    shop.made.write("shop/use.py", "def other():\n    pass\n")
    shop.index()
    stray = shop.database.with_name("gone-00000000000000000000.0123456789abcdef.working.db")
    stray.touch()
    shop.node.backup(tmp_path / "backup.tar", with_key=True)
    with tarfile.open(tmp_path / "backup.tar") as archive:
        assert not any("working" in name for name in archive.getnames())
    home = Home(tmp_path / "restored")
    restore_backup(tmp_path / "backup.tar", home)
    assert not any("working" in path.name for path in home.repository("").iterdir())
    with tarfile.open(tmp_path / "backup.tar", "a") as archive:
        archive.add(shop.views[0], f"repos/{shop.views[0].name}")
    with pytest.raises(StoreError, match="which no backup has"):
        restore_backup(tmp_path / "backup.tar", Home(tmp_path / "forged"))
    shop.node.gc(50)
    assert shop.views == []
    assert not stray.exists()
    shop.index()
    assert len(shop.views) == 1
    database = shop.database
    shop.node.remove("shop", purge=True)
    assert list(database.parent.iterdir()) == []


@pytest.mark.parametrize("step", ["_parts", "copy_of", "index", "put_working", "bring_up_to_date"])
def test_killed_in_a_refresh_the_base_and_the_next_refresh_are_whole(shop: Shop, tmp_path: Path, step: str) -> None:
    shop.made.write("shop/use.py", "def before():\n    pass\n")
    shop.index()
    signed = shop.state()
    shop.made.write("shop/use.py", "def after():\n    pass\n")
    program = tmp_path / "die.py"
    program.write_text(
        "import os, signal, sys\nfrom pathlib import Path\n"
        "import knowingd.index.working as working, knowingd.store.working as views\n"
        "from knowingd.config import Home\nfrom knowingd.node import Node, Options\n"
        "def die(*_, **__):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        f"setattr(views if {step!r} == '_parts' else working, {step!r}, die)\n"
        f"full = {step!r} == 'copy_of'\n"
        f"with Node(Home(Path({str(tmp_path / 'home')!r}))) as node:\n"
        "    node.index(node.find('shop'), options=Options(full=full))\n"
    )
    done = subprocess.run([sys.executable, str(program)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert shop.state() == signed
    assert shop.node.fsck()["ok"]
    shop.index()
    view = plain(shop.view())
    assert "after" in {node.name for node in view.nodes}
    assert len([path for path in shop.database.parent.iterdir() if path.name.endswith((".working.db", "shed"))]) == 1
    shop.made.commit()
    shop.index()
    assert plain(shop.base()) == view


def test_killed_at_any_moment_the_base_and_the_next_refresh_are_whole(shop: Shop, tmp_path: Path) -> None:
    random = Random(7)
    signed = shop.state()
    environment = {**os.environ, "KNOWING_HOME": str(tmp_path / "home")}
    for number in range(8):
        shop.made.write("shop/use.py", f"from shop import total\n\n\ndef f{number}():\n    total({number})\n")
        command = [sys.executable, "-m", "knowingd.cli", "index", "shop", *(["--full"] if number % 2 else [])]
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
        time.sleep(random.uniform(0.3, 0.8))
        process.kill()
        process.wait()
    assert shop.state() == signed
    assert shop.node.fsck()["ok"]
    shop.index()
    view = plain(shop.view())
    shop.made.commit()
    shop.index()
    assert plain(shop.base()) == view


def defined(shop: Shop, name: str, *, working: bool = True) -> bool:
    """Whether a question finds a symbol."""
    try:
        return bool(shop.node.ask(lambda scope: meant(name, scope), working=working))
    except NotFoundError:
        return False


def test_a_question_asks_the_view_only_if_it_may(shop: Shop) -> None:
    shop.made.write("shop/use.py", "def only_here():\n    pass\n")
    assert not defined(shop, "only_here")
    shop.index()
    assert defined(shop, "only_here")
    assert not defined(shop, "only_here", working=False)
    assert not defined(shop, "main")
    assert defined(shop, "main", working=False)
    with shop.node.scope() as scope:  # what proofs and peers are given
        assert scope.working == {}
    with shop.node.scope(working=True) as scope:
        (one,) = scope.repositories
        assert one.working is not None
        assert (one.snapshot.nodes, one.snapshot.edges) == (one.working.nodes, one.working.edges)


def test_a_question_keeps_the_view_that_it_began_with(shop: Shop) -> None:
    shop.made.write("shop/use.py", "def only_here():\n    pass\n")
    shop.index()
    with shop.node.scope(working=True) as scope:
        shop.made.commit()
        shop.index()
        assert shop.views == []
        assert [node.name for node in meant("only_here", scope)] == ["only_here"]


def test_a_view_of_an_older_base_is_not_asked(shop: Shop) -> None:
    shop.made.write("shop/use.py", "def only_here():\n    pass\n")
    shop.index()
    (path,) = shop.views
    kept = path.read_bytes()
    shop.made.git("checkout", "-q", "--", ".")
    shop.made.write("shop/prices.py", "def total(x):\n    return 2\n")
    shop.made.commit()
    shop.index()
    path.write_bytes(kept)
    assert not defined(shop, "only_here")
    assert shop.node.repositories()[0]["working"] is None
    shop.index()
    assert not path.exists()


def test_a_view_of_another_extractor_is_not_asked(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.made.write("shop/use.py", "def only_here():\n    pass\n")
    shop.index()
    monkeypatch.setattr("knowingd.index.languages.extractor_id", lambda: bytes(32))
    assert not defined(shop, "only_here")
    assert shop.node.repositories()[0]["working"] is None


def test_a_copy_without_its_note_is_not_asked(shop: Shop) -> None:
    shop.node.repository(shop.node.find("shop")).copy_to(new_path(shop.database))
    with shop.node.scope(working=True) as scope:
        assert scope.working == {}


def test_what_is_not_indexed_of_a_work_tree_is_stale(shop: Shop) -> None:
    (one,) = shop.node.stale()
    assert (one["stale"], one["working"]) == (False, None)
    shop.made.write("shop/use.py", "def only_here():\n    pass\n")
    (one,) = shop.node.stale()
    assert (one["reasons"], one["working"]) == (["uncommitted changes are not indexed (files: 1)"], None)
    shop.index()
    (one,) = shop.node.stale()
    assert (one["stale"], one["working"]["files"]) == (False, 1)
    shop.made.git("checkout", "-q", "--", ".")
    (one,) = shop.node.stale()
    assert one["stale"]
