"""Questions over HTTP: a token sees its repositories, and nothing tells it that there are others."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiohttp.test_utils import TestClient, TestServer
from knowing_protocol.hashing import node_hash
from support.hub import QUESTIONS, SECRET, Answer, Hub, Question, ask, get, name_of

from knowingd.cli import main
from knowingd.errors import KnowingError
from knowingd.http import queries
from knowingd.http.app import Server
from knowingd.http.callers import _on_this_machine
from knowingd.query import answers
from knowingd.sync.limits import Limits

ACME = "github.com/acme/*"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    place = tmp_path_factory.mktemp("hub")
    found = Hub(place / "home")
    found.index(place)
    found.serve()
    yield found
    found.close()


@pytest.fixture(scope="module")
def less(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """The same node, but without the secret repository."""
    place = tmp_path_factory.mktemp("less") / "home"
    backup = place.parent / "copy"
    shutil.copytree(hub.home, backup)
    shutil.move(backup, place)
    found = Hub(place)
    found.node.remove(SECRET, purge=True)
    found.serve()
    yield found
    found.close()


def asked(machine: Hub, token: str, question: Question) -> Answer:
    return ask(machine.url, question[0], token, **question[1])


@pytest.mark.parametrize("question", QUESTIONS, ids=name_of)
def test_a_token_sees_only_its_repositories(hub: Hub, less: Hub, question: Question) -> None:
    """Byte for byte what a node answers that has no others, refusals and header fields included."""
    found = asked(hub, hub.token(ACME), question)
    assert found == asked(less, less.token("*"), question)
    assert "secret" not in found.body.replace(SECRET, "") or found.status != 200


def test_the_secret_repository_matters_to_those_who_may_see_it(hub: Hub) -> None:
    """Or the law above would be empty."""
    narrow, wide = hub.token(ACME), hub.token("*")
    same = {name_of(one) for one in QUESTIONS if asked(hub, narrow, one) == asked(hub, wide, one)}
    assert same == {"callers twice", "stats lib"}


HIDDEN_HASH = node_hash(SECRET, "plans", "launch", "function").hex()


@pytest.mark.parametrize(
    ("name", "parameter", "hidden", "absent"),
    [
        ("callers", "symbol", "hidden", "hiddex"),
        ("callers", "symbol", "plans:launch", "plans:launcx"),
        ("callers", "symbol", "python://lib.hidden", "python://lib.hiddex"),
        ("callers", "symbol", HIDDEN_HASH, "0" * 64),
        ("callees", "symbol", "hidden", "hiddex"),
        ("callees", "symbol", HIDDEN_HASH, "0" * 64),
        ("search", "query", "hidden", "hiddex"),
        ("dangling", "repo", SECRET, "github.com/secret/planx"),
        ("dangling", "repo", "plans", "planx"),
        ("stats", "repo", SECRET, "github.com/secret/planx"),
    ],
)
def test_what_is_hidden_answers_like_what_does_not_exist(
    hub: Hub, name: str, parameter: str, hidden: str, absent: str
) -> None:
    token = hub.token(ACME)
    found, nothing = (ask(hub.url, name, token, **{parameter: one}) for one in (hidden, absent))
    assert found._replace(body=found.body.replace(hidden, absent)) == nothing
    seen, unseen = (ask(hub.url, name, hub.token("*"), **{parameter: one}) for one in (hidden, absent))
    assert seen._replace(body=seen.body.replace(hidden, absent)) != unseen  # for others it is there


def test_a_damaged_database_of_a_hidden_repository_does_not_show(hub: Hub, less: Hub, tmp_path: Path) -> None:
    shutil.copytree(hub.home, tmp_path / "home")
    damaged = Hub(tmp_path / "home")
    (row,) = [row for row in damaged.node.store.roster() if row.url == SECRET]
    path = damaged.node.home.repository(row.database)
    try:
        damaged.serve()
        for file in (path, path.with_name(path.name + "-wal")):
            if file.exists():
                with file.open("r+b") as stream:
                    stream.write(b"\xff" * file.stat().st_size)
        token, other = damaged.token(ACME), less.token("*")
        for question in QUESTIONS:
            assert asked(damaged, token, question) == asked(less, other, question), question
        refused = asked(damaged, damaged.token("*"), ("callers", {"symbol": "lib.make"}))
        assert refused.status == 500
        assert str(tmp_path) not in refused.body  # where things lie is nobody's business
    finally:
        damaged.close()


@pytest.mark.parametrize("question", QUESTIONS, ids=name_of)
def test_a_token_that_is_revoked_or_expired_is_refused(hub: Hub, question: Question) -> None:
    revoked = hub.token("*")
    hub.federation.peers.revoke_token(revoked.split("_")[1], int(time.time()))
    for token, code in ((revoked, "token-revoked"), (hub.token("*", expires=1), "token-expired")):
        found = asked(hub, token, question)
        assert found.status == 401
        assert json.loads(found.body)["error"]["code"] == code
        assert found.headers["WWW-Authenticate"].startswith("Bearer")


def test_a_revocation_counts_from_the_next_request_on(hub: Hub) -> None:
    token = hub.token(ACME)
    assert ask(hub.url, "repos", token).status == 200
    hub.federation.peers.revoke_token(token.split("_")[1], int(time.time()))
    assert ask(hub.url, "repos", token).status == 401


def test_nobody_asks_without_a_token_not_even_on_this_machine(hub: Hub) -> None:
    for name, parameters in QUESTIONS:
        found = ask(hub.url, name, None, **parameters)
        assert (found.status, json.loads(found.body)["error"]["code"]) == (401, "token-missing")


def test_a_token_that_is_not_known_answers_like_one_whose_secret_is_wrong(hub: Hub) -> None:
    known = hub.token("*")
    wrong = known[:-4] + ("AAAA" if known[-4:] != "AAAA" else "BBBA")
    unknown = f"knowing_00000000_{'A' * 43}"
    assert ask(hub.url, "repos", wrong) == ask(hub.url, "repos", unknown)
    assert ask(hub.url, "repos", wrong).status == 401


def test_a_token_to_publish_also_reads(hub: Hub) -> None:
    question = QUESTIONS[0]
    assert asked(hub, hub.token(ACME, "publish"), question) == asked(hub, hub.token(ACME), question)


def test_places_of_the_machine_are_not_served(hub: Hub) -> None:
    token = hub.token("*")
    for question in QUESTIONS:
        assert str(hub.home.parent) not in asked(hub, token, question).body
    (row,) = [row for row in hub.node.store.roster() if row.url == SECRET]
    assert row.path is not None
    assert ask(hub.url, "dangling", token, repo=row.path).status == 404


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/v1/callers", "parameter"),
        ("/v1/callers?symbol=", "parameter"),
        ("/v1/callers?symbol=x&symbol=y", "parameter"),
        ("/v1/callers?symbol=x&depth=0", "parameter"),
        ("/v1/callers?symbol=x&depth=1.5", "parameter"),
        ("/v1/callers?symbol=x&min-confidence=nan", "parameter"),
        ("/v1/callers?symbol=x&include-unresolved=yes", "parameter"),
        ("/v1/callers?symbol=x&working=true", "parameter"),
        ("/v1/search?query=x&limit=1001", "parameter"),
        ("/v1/search?query=x&kind=thing", "parameter"),
        ("/v1/repos?x=1", "parameter"),
    ],
)
def test_what_is_no_parameter_is_refused_in_the_one_shape(hub: Hub, path: str, code: str) -> None:
    found = get(hub.url, path, hub.token("*"))
    assert found.status == 400
    document = json.loads(found.body)
    assert document.keys() == {"error", "request"}
    assert document["error"].keys() == {"code", "message", "hint"}
    assert document["error"]["code"] == code


# The hub and the command line


class Done(NamedTuple):
    """What a command printed, and its exit code."""

    stdout: str
    stderr: str
    code: object


Knowing = Callable[..., Done]


@pytest.fixture
def knowing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Knowing:
    """The command line in this process: many short commands."""

    def run(home: Path, *arguments: str, **environment: str) -> Done:
        with monkeypatch.context() as patched:
            for name in ("KNOWING_HUB", "KNOWING_TOKEN"):
                patched.delenv(name, raising=False)
            for name, value in environment.items():
                patched.setenv(name, value)
            with pytest.raises(SystemExit) as caught:
                main([*arguments, "--home", str(home)])
        return Done(*capsys.readouterr(), caught.value.code)

    return run


COMMANDS = [
    ["callers", "lib.Client.send"],
    ["callers", "lib.Client.send", "--include-unresolved", "--type", "uses", "--depth", "2", "--min-confidence", "0.1"],
    ["callers", "lib.Client.send", "--repo", "app"],
    ["callers", "twice"],
    ["callers", "no.such.thing"],
    ["callers", "bad\\name://"],
    ["callees", "go"],
    ["callees", "app:go", "--include-unresolved"],
    ["search", "make client", "--limit", "3"],
    ["search", "nothing at all"],
    ["dangling"],
    ["dangling", "app", "--limit", "1"],
    ["dangling", "--by", "module"],
    ["dangling", "nobody"],
]


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["people", "json"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_hub_answers_like_the_local_node(
    hub: Hub, command: list[str], form: list[str], tmp_path: Path, knowing: Knowing
) -> None:
    local = knowing(hub.home, *command, *form, "--base")
    token = hub.token("*")
    there = knowing(tmp_path / "other", *command, *form, KNOWING_HUB=hub.url, KNOWING_TOKEN=token)
    assert there == local
    assert not (tmp_path / "other").exists()  # whoever only asks a hub is no node


def test_uncommitted_changes_stay_here(hub: Hub, tmp_path: Path, knowing: Knowing) -> None:
    shutil.copytree(hub.home, tmp_path / "home")
    found = Hub(tmp_path / "home")
    (row,) = [row for row in found.node.store.roster() if row.url == "github.com/acme/app"]
    assert row.path is not None
    file = Path(row.path) / "one.py"
    before = file.read_text()
    try:
        file.write_text(before + "\n\ndef unfinished():\n    import lib\n    lib.make()\n")
        assert knowing(found.home, "index", "app").code == 0
        found.serve()
        assert "unfinished" in knowing(found.home, "callers", "lib._core.make").stdout
        token = found.token("*")
        for question in QUESTIONS:
            answer = asked(found, token, question)
            assert "unfinished" not in answer.body
            assert '"working": true' not in answer.body
    finally:
        file.write_text(before)
        found.close()


def test_the_token_may_stand_in_a_file(hub: Hub, tmp_path: Path, knowing: Knowing) -> None:
    file = tmp_path / "token"
    file.write_text(hub.token(ACME) + "\n")
    done = knowing(tmp_path, "search", "launch", "--hub", hub.url, "--token-file", str(file), "--json")
    assert json.loads(done.stdout)["results"] == []


@pytest.mark.parametrize(
    ("token", "address", "code"),
    [
        ("", "", "token-missing"),
        ("nonsense", "", "token-malformed"),
        (f"knowing_00000000_{'A' * 43}", "", "token-invalid"),
        (f"knowing_00000000_{'A' * 43}", "http://127.0.0.1:1", "unreachable"),
        (f"knowing_00000000_{'A' * 43}", "https://127.0.0.1:1#" + "0" * 64, "unreachable"),
    ],
)
def test_what_goes_wrong_with_a_hub_exits_5(
    hub: Hub, tmp_path: Path, knowing: Knowing, token: str, address: str, code: str
) -> None:
    done = knowing(tmp_path, "callers", "x", "--hub", address or hub.url, "--json", KNOWING_TOKEN=token)
    assert (done.code, json.loads(done.stdout)["error"]["code"]) == (5, code)


# Metrics


def test_metrics_are_not_shown_to_strangers(hub: Hub) -> None:
    assert SECRET in get(hub.url, "/metrics").body
    for field in ("X-Forwarded-For", "Forwarded"):
        passed_on = {field: "for=203.0.113.7"}
        refused = get(hub.url, "/metrics", **passed_on)
        assert refused.status == 401
        assert SECRET not in refused.body
        assert get(hub.url, "/metrics", hub.token(ACME), **passed_on).status == 403
        assert SECRET in get(hub.url, "/metrics", hub.token("*"), **passed_on).body


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("::ffff:127.0.0.1", True), ("10.0.0.1", False),
     ("::ffff:10.0.0.1", False), ("", False), (None, False), ("localhost.example.org", False)],
)  # fmt: skip
def test_only_loopback_is_this_machine(address: str | None, expected: bool) -> None:
    assert _on_this_machine(address) is expected


# Limits


def served(hub: Hub, use: Any) -> Any:
    """Talk to a server inside of this process."""

    async def run() -> Any:
        async with TestClient(TestServer(Server(hub.federation).application())) as client:
            return await use(client)

    return asyncio.run(run())


def test_a_question_that_takes_too_long_is_ended_and_its_thread_comes_back(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = threading.Event()

    def forever(asker: queries.Asker) -> dict[str, Any]:
        try:
            while True:
                asker.check()
                time.sleep(0.01)
        finally:
            ended.set()

    monkeypatch.setattr(queries, "TIME_LIMIT", 0.3)
    monkeypatch.setattr(queries, "QUERIES", (queries.Query("/v1/forever", "", (), forever),))
    token = hub.token("*")

    async def use(client: Any) -> tuple[int, Any]:
        response = await client.get("/v1/forever", headers={"Authorization": f"Bearer {token}"})
        found = await response.json()
        return response.status, found["error"]["code"]

    assert served(hub, use) == (503, "too-slow")
    assert ended.wait(5)


def test_every_look_into_a_repository_sees_whether_time_is_up(hub: Hub) -> None:
    def check() -> None:
        raise queries.TooSlowError

    with pytest.raises(queries.TooSlowError):
        hub.node.ask(lambda scope: answers.callers(scope, "lib.Client.send"), check=check)


def test_a_token_has_its_share_and_others_theirs(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "TOKEN_LIMITS", Limits(per_second=0.1, burst=2, concurrent=2))
    greedy, modest = hub.token("*"), hub.token("*")

    async def use(client: Any) -> list[tuple[int, bool]]:
        found = []
        for token in (greedy, greedy, greedy, modest):
            response = await client.get("/v1/repos", headers={"Authorization": f"Bearer {token}"})
            found.append((response.status, "Retry-After" in response.headers))
        return found

    assert served(hub, use) == [(200, False), (200, False), (429, True), (200, False)]


def test_an_answer_beyond_its_size_is_refused(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "MAX_ANSWER", 100)
    query = next(one for one in queries.QUERIES if one.path == "/v1/repos")
    row = hub.federation.peers.token(hub.token("*").split("_")[1])
    assert row is not None
    with pytest.raises(KnowingError) as caught:
        queries._answered(query, queries.Asker(hub.node, row, time.monotonic() + 9, threading.Event()), {})
    assert caught.value.code == "too-large"


def test_questions_at_the_same_time_are_answered_alike(hub: Hub) -> None:
    tokens = {pattern: [hub.token(pattern) for _ in range(3)] for pattern in (ACME, "*")}
    question = QUESTIONS[0]
    alone = {pattern: asked(hub, several[0], question) for pattern, several in tokens.items()}
    wrong: list[str] = []

    def work(pattern: str, token: str) -> None:
        wrong.extend(pattern for _ in range(10) if asked(hub, token, question) != alone[pattern])

    threads = [threading.Thread(target=work, args=(pattern, one)) for pattern, each in tokens.items() for one in each]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
