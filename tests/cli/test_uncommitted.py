"""Uncommitted changes as a user meets them: index, ask, watch, commit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from source.making import Repository

LIBRARY = {
    "pyproject.toml": '[project]\nname = "lib"\n[tool.setuptools]\npackages = ["lib"]\n',
    "lib/__init__.py": "def send(data):\n    return data\n\n\ndef other():\n    return send(1)\n",
}
APPLICATION = {"app.py": "import lib\n\n\ndef go():\n    lib.send(1)\n"}
QUESTIONS = [
    ["callers", "lib.send"],
    ["callees", "go"],
    ["search", "send"],
    ["dangling"],
    ["dangling", "--by", "module"],
]


def knowing(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "knowingd.cli", *arguments, "--home", str(home)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def answer(home: Path, *arguments: str) -> Any:
    done = knowing(home, *arguments, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def make(place: Path) -> Repository:
    """A node with a library and an application; the application."""
    for name, files in (("lib", LIBRARY), ("app", APPLICATION)):
        made = Repository(place / name)
        for path, text in files.items():
            made.write(path, text)
        made.commit()
        answer(place / "home", "add", str(made.path), "--url", f"local/{name}")
    return made


@pytest.fixture
def application(tmp_path: Path) -> Repository:
    return make(tmp_path)


@pytest.fixture(scope="module")
def dirty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of a node that indexed an application with uncommitted changes."""
    place = tmp_path_factory.mktemp("dirty")
    application = make(place)
    application.write("app.py", APPLICATION["app.py"] + "\n\ndef send_again():\n    lib.send(2)\n    import nowhere\n")
    answer(place / "home", "index", "app")
    return place / "home"


def test_uncommitted_callers_are_found_and_marked_until_they_are_committed(
    application: Repository, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    application.write("app.py", APPLICATION["app.py"] + "\n\ndef again():\n    lib.send(2)\n")
    (indexed,) = answer(home, "index", "app")["repos"]
    assert (indexed["working"]["files"], indexed["working"]["parsed"], indexed["parsed"]) == (1, 1, 0)
    found = answer(home, "callers", "lib.send")
    rows = {one["name"]: (one["repo"], one["working"], one["line"]) for one in found["callers"]}
    assert rows == {
        "go": ("local/app", True, 5),
        "again": ("local/app", True, 9),
        "other": ("local/lib", False, 6),
    }
    (view,) = found["reach"]["working"]
    assert (view["repo"], view["commit"]) == ("local/app", indexed["commit"])
    base = answer(home, "callers", "lib.send", "--base")
    assert {one["name"] for one in base["callers"]} == {"go", "other"}
    assert base["reach"] == {"working": []}
    text = knowing(home, "callers", "lib.send").stdout
    assert f"local/app @ {indexed['commit'][:12]} with uncommitted changes\n" in text
    moment = time.strftime("%H:%M:%S", time.localtime(view["time"]))
    assert f"local/app: with uncommitted changes as of {moment} (1 file)" in text
    assert answer(home, "log", "app")["snapshots"][0]["index"] == 1
    application.commit()
    (indexed,) = answer(home, "index", "app")["repos"]
    assert (indexed["working"], indexed["snapshot"]) == (None, view["snapshot"])
    found = answer(home, "callers", "lib.send")
    assert {one["name"]: one["working"] for one in found["callers"]} == {"go": False, "again": False, "other": False}
    assert found["reach"] == {"working": []}


@pytest.mark.parametrize("question", QUESTIONS, ids=" ".join)
def test_every_question_says_that_it_saw_uncommitted_changes(dirty: Path, question: list[str]) -> None:
    found = answer(dirty, *question)
    assert [one["repo"] for one in found["reach"]["working"]] == ["local/app"]
    rows = next((value for value in found.values() if isinstance(value, list)), [])
    assert "--by" in question or any(one["working"] for one in rows)
    assert "local/app: with uncommitted changes as of " in knowing(dirty, *question).stdout
    assert "uncommitted" not in knowing(dirty, *question, "--base").stdout


def test_an_export_is_of_the_view_or_of_the_base(dirty: Path) -> None:
    found = json.loads(knowing(dirty, "export", "app").stdout)
    base = json.loads(knowing(dirty, "export", "app", "--base").stdout)
    assert (found["working"], base["working"]) == (True, False)
    names = {one["name"] for one in found["nodes"]} - {one["name"] for one in base["nodes"]}
    assert names == {"send_again", "python://nowhere"}


def test_list_and_stale_show_a_view(application: Repository, tmp_path: Path) -> None:
    home = tmp_path / "home"
    application.write("more.py", "def more():\n    pass\n")
    assert "uncommitted changes are not indexed (files: 1)" in knowing(home, "stale").stdout
    text = knowing(home, "index", "app").stdout
    assert "with uncommitted changes as of" in text
    assert "peers and proofs see the commit" in text
    for command in ("list", "stale"):
        found = {one["repo"]: one["working"] for one in answer(home, command)["repos"]}
        assert found["local/lib"] is None
        assert found["local/app"]["files"] == 1
        assert "local/app: answers come with uncommitted changes as of" in knowing(home, command).stdout
    assert answer(home, "stale", "app")["repos"][0]["stale"] is False


def test_watch_says_every_save_and_every_commit(application: Repository, tmp_path: Path) -> None:
    home = tmp_path / "home"
    command = [sys.executable, "-m", "knowingd.cli", "watch", "app", "--json", "--debounce", "50", "--home", str(home)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        assert process.stderr.readline() == "watching 1 repositories; Ctrl-C ends\n"
        time.sleep(0.5)
        application.write("more.py", "def more():\n    pass\n")
        saved = json.loads(process.stdout.readline())
        assert (saved["index"], saved["working"]["files"], saved["working"]["parsed"]) == (1, 1, 1)
        application.commit()
        committed = json.loads(process.stdout.readline())
        assert (committed["index"], committed["working"]) == (2, None)
        assert committed["snapshot"] == saved["working"]["snapshot"]
        application.write("more.py", "def less():\n    pass\n")
        assert json.loads(process.stdout.readline())["working"]["files"] == 1
        application.git("checkout", "-q", "--", ".")
        again = json.loads(process.stdout.readline())
        assert (again["index"], again["working"]) == (2, None)
    finally:
        os.kill(process.pid, signal.SIGINT)
        process.communicate(timeout=30)
