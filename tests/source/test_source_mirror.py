"""Mirrors: whole or not there, up to date, and without a trace of what the URL kept secret."""

from __future__ import annotations

import base64
import fcntl
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from source.making import Repository, contents

from knowingd.errors import BusyError, KnowingError, NotFoundError, UsageError
from knowingd.source import FetchError, Progress, mirror, open_source, repository_url


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path / "made")
    for number in range(20):
        made.write(f"{number}.py", f"x = {number}\n")
    made.commit()
    return made


def url_of(repository: Repository) -> str:
    return f"file://{repository.path}"


def test_a_mirror_has_the_files_and_every_ref(repository: Repository, tmp_path: Path) -> None:
    repository.git("tag", "v1")
    repository.git("branch", "side")
    target = mirror(url_of(repository), tmp_path / "deep" / "mirror.git")
    with open_source(repository.path) as origin, open_source(target) as copy:
        assert (copy.commit, copy.branch, contents(copy)) == (origin.commit, "main", contents(origin))
    for ref in ("v1", "side"):
        with open_source(target, ref) as source:
            assert source.commit == repository.git("rev-parse", ref)


def test_an_update_follows_new_deleted_and_rewritten_refs_and_another_default_branch(
    repository: Repository, tmp_path: Path
) -> None:
    repository.git("branch", "gone")
    repository.git("branch", "dir")
    target = mirror(url_of(repository), tmp_path / "mirror.git")
    repository.git("branch", "-D", "gone", "dir")
    repository.git("branch", "dir/sub")
    repository.write("new.py")
    repository.git("add", "-A")
    repository.git("commit", "-q", "--amend", "-m", "rewritten")
    repository.git("branch", "-m", "main", "trunk")
    mirror(url_of(repository), target)
    with open_source(target) as source:
        assert source.branch == "trunk"
        assert source.commit == repository.git("rev-parse", "HEAD")
    for ref in ("gone", "main", "dir"):
        with pytest.raises(NotFoundError):
            open_source(target, ref)


def test_mirroring_twice_changes_nothing(repository: Repository, tmp_path: Path) -> None:
    target = mirror(url_of(repository), tmp_path / "mirror.git")
    before = sorted(str(path) for path in target.rglob("*"))
    mirror(url_of(repository), target)
    assert sorted(str(path) for path in target.rglob("*")) == before


def test_many_updates_do_not_leave_many_packs(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knowingd.source.mirrors._MANY_PACKS", 0)
    target = mirror(url_of(repository), tmp_path / "mirror.git")
    for number in range(3):
        repository.write("a.py", f"{number}")
        repository.commit()
        mirror(url_of(repository), target)
    assert len(list((target / "objects" / "pack").glob("*.pack"))) == 1
    with open_source(target) as source:
        assert contents(source)["a.py"] == b"2"


def test_progress_is_told_in_numbers(repository: Repository, tmp_path: Path) -> None:
    told: list[Progress] = []
    mirror(url_of(repository), tmp_path / "mirror.git", progress=told.append)
    received = [one for one in told if one.stage == "Receiving objects"]
    assert received[-1].done == received[-1].total == 22


def test_an_empty_repository_is_mirrored_and_says_that_it_is_empty(tmp_path: Path) -> None:
    made = Repository(tmp_path / "empty")
    target = mirror(url_of(made), tmp_path / "mirror.git")
    with pytest.raises(KnowingError) as caught:
        open_source(target)
    assert caught.value.code == "empty-repository"
    made.write("a.py")
    made.commit()
    mirror(url_of(made), target)
    with open_source(target) as source:
        assert set(contents(source)) == {"a.py"}


def test_a_failed_clone_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError) as caught:
        mirror(f"file://{tmp_path}/nowhere", tmp_path / "mirrors" / "mirror.git")
    assert caught.value.hint
    assert [path.name for path in (tmp_path / "mirrors").iterdir()] == ["mirror.git.lock"]


def test_a_callback_that_raises_interrupts_and_leaves_nothing(repository: Repository, tmp_path: Path) -> None:
    def interrupt(_: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mirror(url_of(repository), tmp_path / "mirrors" / "mirror.git", progress=interrupt)
    assert [path.name for path in (tmp_path / "mirrors").iterdir()] == ["mirror.git.lock"]


def test_a_killed_clone_is_swept_up_by_the_next(repository: Repository, tmp_path: Path) -> None:
    target = tmp_path / "mirrors" / "mirror.git"
    program = (
        "import os, signal, sys; from pathlib import Path; from knowingd.source import mirror;"
        "mirror(sys.argv[1], Path(sys.argv[2]), progress=lambda _: os.kill(os.getpid(), signal.SIGKILL))"
    )
    done = subprocess.run([sys.executable, "-c", program, url_of(repository), str(target)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not target.exists()
    mirror(url_of(repository), target)
    deadline = time.monotonic() + 30
    while len(list(target.parent.iterdir())) > 2 and time.monotonic() < deadline:
        time.sleep(0.1)  # the git of the killed process is about to find out
        mirror(url_of(repository), target)
    assert sorted(path.name for path in target.parent.iterdir()) == ["mirror.git", "mirror.git.lock"]
    with open_source(target) as source:
        assert len(contents(source)) == 20


def test_a_failed_update_leaves_the_mirror_as_it_was(repository: Repository, tmp_path: Path) -> None:
    target = mirror(url_of(repository), tmp_path / "mirror.git")
    repository.path.rename(tmp_path / "moved")
    with pytest.raises(NotFoundError):
        mirror(url_of(repository), target)
    with open_source(target) as source:
        assert len(contents(source)) == 20


def test_the_mirror_of_another_url_is_refused(repository: Repository, tmp_path: Path) -> None:
    target = mirror(url_of(repository), tmp_path / "mirror.git")
    with pytest.raises(UsageError, match="not the mirror"):
        mirror(f"file://{tmp_path}/other", target)
    (tmp_path / "full").mkdir()
    with pytest.raises(UsageError, match="not the mirror"):
        mirror(url_of(repository), tmp_path / "full")


def test_two_at_once_do_not_meet(repository: Repository, tmp_path: Path) -> None:
    with (tmp_path / "mirror.git.lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(BusyError):
            mirror(url_of(repository), tmp_path / "mirror.git")


@pytest.mark.parametrize(
    "url", ["ext::sh -c 'touch /tmp/x'", "ext::true", "--upload-pack=evil", "fd::17", "https://a b/", "https://a/\nb"]
)
def test_urls_that_would_run_something_are_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(UsageError):
        mirror(url, tmp_path / "mirror.git")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["ssh://-oProxyCommand=touch%20x/y", "ftp://host.invalid/x"])
def test_urls_that_git_or_we_do_not_allow_fail(tmp_path: Path, url: str) -> None:
    with pytest.raises(KnowingError):
        mirror(url, tmp_path / "mirror.git")
    assert not (tmp_path / "mirror.git").exists()


# Servers that misbehave, on this machine alone


@pytest.fixture
def silent_server() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_transfer_that_says_nothing_is_given_up(silent_server: int, tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(FetchError) as caught:
        mirror(f"git://127.0.0.1:{silent_server}/x", tmp_path / "mirror.git", stalled_seconds=1)
    assert caught.value.code == "stalled"
    assert time.monotonic() - started < 20
    assert [path.name for path in tmp_path.iterdir()] == ["mirror.git.lock"]


class _Asked(BaseHTTPRequestHandler):
    seen: list[str | None] = []  # noqa: RUF012 - one server, one test

    def do_GET(self) -> None:
        self.seen.append(self.headers.get("Authorization"))
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="x"')
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is inherited
        pass


@pytest.fixture
def asking_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    for name in ("http_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    _Asked.seen.clear()
    with HTTPServer(("127.0.0.1", 0), _Asked) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_nobody_is_asked_for_a_password(asking_server: int, tmp_path: Path) -> None:
    with pytest.raises(FetchError) as caught:
        mirror(f"http://127.0.0.1:{asking_server}/x", tmp_path / "mirror.git")
    assert caught.value.code == "no-access"
    assert caught.value.exit_code == 5
    assert _Asked.seen[0] is None


def test_a_password_in_the_url_is_sent_and_neither_kept_nor_shown(asking_server: int, tmp_path: Path) -> None:
    told: list[str] = []
    with pytest.raises(FetchError) as caught:
        mirror(
            f"http://me:hunt%20er2@127.0.0.1:{asking_server}/x",
            tmp_path / "mirror.git",
            progress=lambda one: told.append(str(one)),
        )
    expected = "Basic " + base64.b64encode(b"me:hunt er2").decode()
    assert expected in _Asked.seen
    everything = caught.value.message + caught.value.hint + "".join(told)
    assert "hunt" not in everything
    assert base64.b64encode(b"me:hunt er2").decode() not in everything


def test_the_configuration_of_a_mirror_holds_no_user_info(repository: Repository, tmp_path: Path) -> None:
    target = mirror(url_of(repository), tmp_path / "mirror.git")
    assert not (target / "hooks").exists()
    assert "helper" not in (target / "config").read_text()
    assert repository_url(target).startswith("local/mirror-")
