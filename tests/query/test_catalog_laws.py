"""The catalog is a filter that changes no answer, whatever is added, edited, removed, collected or lost."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from knowing_protocol.errors import KnowingError
from knowing_protocol.hashing import NodeId
from knowing_protocol.history import DEFAULT_REF
from knowing_protocol.records import Records
from support.changes import difference, edited
from support.generated import Size, generate
from unit.test_claims import ENDS, ROOTS, library, random_world

import knowingd.node
from knowingd.config import Home
from knowingd.node import Node
from knowingd.query.callers import callers
from knowingd.query.leaving import callees, dangling
from knowingd.query.scope import Repository, Scope
from knowingd.query.symbols import meant
from knowingd.resolve import catalog as catalogs
from knowingd.resolve.graph import StoredGraph
from knowingd.resolve.keys import all_keys, keys_since
from knowingd.resolve.sessions import MovedError
from knowingd.snapshot.snapshots import Told
from knowingd.store import catalog as catalog_store
from knowingd.store import filestate
from knowingd.store.repository import RepositoryStore
from knowingd.store.rows import Changes

NONE = Records()
TYPES = ("calls", "references", "imports", "decorates", "extends")
quick = settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class World:
    """A node, and what its repositories hold."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.records: dict[str, Records] = {}
        self.commits = 0

    def put(self, url: str, records: Records, node: Node | None = None) -> None:
        """Take a snapshot of a repository as these records tell it."""
        self.commits += 1
        changes = difference(self.records.get(url, NONE), records)
        (node or self.node).snapshot(url, [changes], Told(f"{self.commits:040}", "main", bytes(32)))
        self.records[url] = records

    def remove(self, url: str) -> None:
        self.node.remove(url, purge=True)
        del self.records[url]

    def symbols(self) -> list[NodeId]:
        found = {node for one in self.records.values() for node in one.nodes}
        return sorted(node for node in found if node.kind in {"function", "method", "type", "external"})


@contextmanager
def without_catalog(node: Node) -> Iterator[Scope]:
    """Every repository open and looked into for everything."""
    found = []
    with ExitStack() as stack:
        for row in node.store.roster():
            if row.ref == DEFAULT_REF:
                store = RepositoryStore(node.home.repository(row.database), row.url, row.ref, row.origin)
                stack.callback(store.close)
                session = stack.enter_context(store.read())
                last = session.last_snapshot(finished=True)
                if last is not None:
                    found.append(Repository(StoredGraph(session), last))
        yield Scope(tuple(found))


def told(action: Callable[[], Any]) -> Any:
    """What is answered, or how it is refused."""
    try:
        return action()
    except KnowingError as error:
        return type(error), error.code, error.message


def answers(scope: Scope, symbols: list[NodeId], texts: list[str], depth: int) -> list[Any]:
    """Everything that people can ask."""
    found: list[Any] = [(one.url, one.snapshot) for one in scope.repositories]
    for symbol in symbols:
        found.append(told(lambda symbol=symbol: callers(symbol, scope, TYPES, depth)))  # type: ignore[misc]
        if symbol.repo in {one.url for one in scope.repositories}:
            found.append(told(lambda symbol=symbol: callees(symbol, scope, TYPES, with_unresolved=True)))  # type: ignore[misc]
    found += (told(lambda text=text: meant(text, scope)) for text in texts)  # type: ignore[misc]
    found += ([(row.name, row.state, row.definitions) for row in dangling(one, scope)] for one in scope.repositories)
    return found


def assert_same_answers(world: World, random: Random) -> None:
    symbols = world.symbols()
    symbols = random.sample(symbols, min(len(symbols), 10))
    texts = [f"{random.choice(ROOTS)}.{random.choice(ENDS)}" for _ in range(4)]
    texts += ["f", "K", "K.m", "copy:f", "nothing", *(symbol.name for symbol in symbols[:4])]
    depth = random.choice([1, 1, 2])
    with without_catalog(world.node) as scope:
        expected = answers(scope, symbols, texts, depth)
    assert world.node.ask(lambda scope: answers(scope, symbols, texts, depth)) == expected


def forget_catalog(node: Node) -> None:
    """Delete the file under the node's hands, as anybody may."""
    for path in node.home.path.glob("catalog.db*"):
        path.unlink()


@quick
@given(seed=st.integers(0, 2**32))
def test_answers_with_and_without_the_catalog_are_equal(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    random = Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(knowingd.node, "MAX_OPEN", random.choice([1, 2, 32]))
        patch.setattr(catalogs, "MAX_GONE", random.choice([3, 5000]))
        with Node(Home(tmp_path_factory.mktemp("home"))) as node:
            world = World(node)
            for one in random_world(random, copies=True):
                world.put(one.repo, one.records)
            assert_same_answers(world, random)
            for _ in range(4):
                for one in random.sample(random_world(random, copies=True), 2):
                    what = random.random()
                    if what < 0.2 and one.repo in world.records and len(world.records) > 1:
                        world.remove(one.repo)
                    else:
                        world.put(one.repo, one.records)
                if random.random() < 0.2:
                    forget_catalog(node)
                if random.random() < 0.2:
                    node.gc(1)
                assert_same_answers(world, random)


@quick
@given(seed=st.integers(0, 2**32))
def test_what_was_added_gives_every_key_that_was_not_there(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    random = Random(seed)
    url, records = generate(seed, Size(4, 40, 120))
    with Node(Home(tmp_path_factory.mktemp("home"))) as node:
        world = World(node)
        world.put(url, records)
        row = node.find(url)
        with node.repository(row).read() as session:
            known = all_keys(session)
        for _ in range(5):
            world.put(url, edited(world.records[url], url, random))
            with node.repository(row).read() as session:
                last = session.last_snapshot()
                assert last is not None
                added = keys_since(session, last.sequence - 1, last.sequence)
                now = all_keys(session)
            known.fingerprints |= added.fingerprints
            known.open_names |= added.open_names
            assert now.fingerprints <= known.fingerprints
            assert now.open_names <= known.open_names


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(Home(tmp_path / "home")) as found:
        yield found


@pytest.fixture
def world(node: Node) -> World:
    found = World(node)
    for seed in range(4):
        url, records = generate(seed, Size(3, 20, 60))
        found.put(url, records)
    return found


def head_of(scope: Scope, url: str) -> int:
    with scope.repository(url).graph.reading() as session:
        last = session.last_snapshot()
    assert last is not None
    return last.sequence


def url_of(seed: int) -> str:
    return f"github.com/generated/repo-{seed}"


def test_an_answer_never_mixes_two_heads(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knowingd.node, "MAX_OPEN", 1)
    first, second = url_of(0), url_of(1)
    asked: list[int] = []

    def question(scope: Scope) -> tuple[int, int]:
        before = head_of(scope, first)
        asked.append(before)
        head_of(scope, second)  # its session takes the place of the first one's
        if len(asked) == 1:
            with Node(Home(tmp_path / "home")) as other:
                world.put(first, edited(world.records[first], first, Random(1)), other)
        return before, head_of(scope, first)

    with Node(Home(tmp_path / "home")) as node:
        assert node.ask(question) == (2, 2)
    assert asked == [1, 2]


def test_a_repository_that_moves_before_it_is_first_opened_is_asked_at_its_new_head(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = url_of(2)
    world.node.ask(lambda scope: len(scope.repositories))
    monkeypatch.setattr(filestate, "SETTLED_AFTER", -(10**18))  # files that look the same are the same
    asked: list[int] = []

    def question(scope: Scope) -> tuple[str, int]:
        asked.append(1)
        if len(asked) == 1:
            with Node(Home(tmp_path / "home")) as other:
                world.put(url, edited(world.records[url], url, Random(2)), other)
        return scope.repository(url).snapshot.commit, head_of(scope, url)

    with Node(Home(tmp_path / "home")) as node:
        assert node.ask(question) == (f"{world.commits:040}", 2)
    assert len(asked) == 2


def test_a_question_gives_up_when_a_repository_moves_all_the_time(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knowingd.node, "MAX_OPEN", 1)
    first, second = url_of(0), url_of(1)

    def question(scope: Scope) -> None:
        head_of(scope, first)
        head_of(scope, second)
        with Node(Home(tmp_path / "home")) as other:
            world.put(first, edited(world.records[first], first, Random(world.commits)), other)
        head_of(scope, first)

    with Node(Home(tmp_path / "home")) as node, pytest.raises(MovedError, match="was written to while") as caught:
        node.ask(question)
    assert caught.value.code == "moved"
    assert caught.value.hint.startswith("ask again")


def test_a_session_in_use_is_never_closed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knowingd.node, "MAX_OPEN", 1)
    with Node(world.node.home) as node, node.scope() as scope, scope.repository(url_of(0)).graph.reading() as session:
        edges = session.edges()
        first = next(edges)
        for seed in range(1, 4):
            head_of(scope, url_of(seed))
        assert len([first, *edges]) == 60


def test_only_repositories_that_may_answer_are_opened(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    (symbol,) = (one for one in world.records[url_of(3)].nodes if one.name.endswith("_7") and one.repo)
    world.node.ask(lambda scope: len(scope.repositories))
    with Node(world.node.home) as node:
        monkeypatch.setattr(filestate, "SETTLED_AFTER", -(10**18))
        make = node._opened
        monkeypatch.setattr(node, "_opened", lambda row: opened.append(row.url) or make(row))  # type: ignore[func-returns-value]
        found = node.ask(lambda scope: meant(f"{symbol.package}:{symbol.name}", scope))
        assert symbol in found
        assert url_of(3) in opened
        with without_catalog(node) as scope:
            tail = symbol.name.rpartition(".")[2]
            defining = {one.url for one in scope.repositories if _defines(one, tail)}
        assert set(opened) == defining


def _defines(repository: Repository, tail: str) -> bool:
    with repository.graph.reading() as session:
        return any(node.name.rpartition(".")[2] == tail for node in session.identities(None).values() if node.repo)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_descriptors_of_a_question_are_limited(node: Node) -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("needs /proc")
    world = World(node)
    for seed in range(45):
        url, records = generate(seed, Size(2, 6, 10))
        world.put(url, records)

    def question(scope: Scope) -> int:
        most = 0
        for one in scope.repositories:
            head_of(scope, one.url)
            most = max(most, descriptors())
        return most

    before = descriptors()
    assert node.ask(question) < before + 3 * knowingd.node.MAX_OPEN + 12


def rows_of(node: Node, query: str) -> list[Any]:
    with closing(sqlite3.connect(node.home.catalog)) as connection:
        return connection.execute(query).fetchall()


def test_removing_a_repository_removes_its_rows(world: World) -> None:
    node = world.node
    node.ask(lambda scope: len(scope.repositories))
    assert rows_of(node, "SELECT count(*) FROM repositories") == [(4,)]
    world.remove(url_of(1))
    assert node.ask(lambda scope: len(scope.repositories)) == 3
    assert rows_of(node, "SELECT count(*) FROM repositories") == [(3,)]
    owners = {number for (number,) in rows_of(node, "SELECT DISTINCT repository FROM keys")}
    assert owners == {number for (number,) in rows_of(node, "SELECT id FROM repositories")}


@pytest.mark.parametrize("damage", [b"", b"no database at all", b"SQLite format 3\0" + bytes(5000)])
def test_a_damaged_catalog_is_made_again(world: World, damage: bytes) -> None:
    forget_catalog(world.node)
    world.node.home.catalog.write_bytes(damage)
    assert_same_answers(world, Random(1))


def test_an_update_that_fails_half_way_leaves_the_catalog_as_it_was(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = world.node
    assert_same_answers(world, Random(1))
    before = rows_of(node, "SELECT sequence FROM repositories"), rows_of(node, "SELECT * FROM keys")
    world.put(url_of(0), edited(world.records[url_of(0)], url_of(0), Random(3)))
    insert = catalog_store._insert

    def fails(connection: sqlite3.Connection, head: str, *rest: Any) -> None:
        if "open_names" in head:
            raise OSError(28, "No space left on device")
        insert(connection, head, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(catalog_store, "_insert", fails)
        with pytest.raises(KnowingError):
            node.ask(lambda scope: len(scope.repositories))
    assert (rows_of(node, "SELECT sequence FROM repositories"), rows_of(node, "SELECT * FROM keys")) == before
    assert_same_answers(world, Random(1))


def test_several_may_ask_and_write_at_once(world: World, tmp_path: Path) -> None:
    problems: list[BaseException] = []

    def ask() -> None:
        try:
            for _ in range(6):
                with Node(Home(tmp_path / "home")) as node:
                    names = node.ask(lambda scope: [head_of(scope, one.url) for one in scope.repositories])
                    assert len(names) == 4
        except BaseException as error:  # noqa: BLE001
            problems.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    random = Random(5)
    for turn in range(6):
        url = url_of(turn % 4)
        world.put(url, edited(world.records[url], url, random))
    for thread in threads:
        thread.join()
    assert not problems
    assert_same_answers(world, random)


def test_a_snapshot_without_events_is_read_as_a_whole(world: World) -> None:
    """A replica that was brought over as a whole has no events that lead to it."""
    node, url = world.node, url_of(0)
    assert_same_answers(world, Random(1))
    world.put(url, edited(world.records[url], url, Random(7)))
    row = node.find(url)
    node.repository(row).write(lambda session: session.drop_events(2))
    assert_same_answers(world, Random(1))


def test_what_is_called_without_its_name_is_found_through_what_is_called(node: Node) -> None:
    world = World(node)
    lib, app, other = (library(f"github.com/acme/{root}", root) for root in ("lib", "app", "other"))
    kind, run = lib.node("lib", "K", "type"), lib.node("lib", "run")
    lib.alias("python://lib.K", kind)
    lib.alias("python://lib.run", run)
    lib.member(kind, "__call__", run)
    app.edge(app.node("app", "use"), "python://lib.K()")
    other.edge(other.node("other", "use"), "python://elsewhere.K()")
    for one in (lib, app, other):
        world.put(one.repo, one.records)
    found = node.ask(lambda scope: callers(run, scope, TYPES))
    assert [(use.repo, use.via) for use in found.uses] == [(app.repo, "python://lib.K()")]
    with without_catalog(node) as scope:
        assert callers(run, scope, TYPES) == found


def test_changes_of_nothing_leave_the_catalog_alone(world: World) -> None:
    node = world.node
    node.ask(lambda scope: len(scope.repositories))
    before = rows_of(node, "SELECT id, sequence FROM repositories")
    node.snapshot(url_of(0), [Changes(0, NONE, NONE)], Told(f"{1:040}", "main", bytes(32)))
    node.ask(lambda scope: len(scope.repositories))
    assert rows_of(node, "SELECT id, sequence FROM repositories") == before
