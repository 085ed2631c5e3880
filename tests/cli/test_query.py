"""The commands that index and ask, as a script uses them: the fields of the contract, and exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from knowingd.query.scope import Scope
from knowingd.query.symbols import meant

LIBRARY = {
    "pyproject.toml": '[project]\nname = "lib"\n[tool.setuptools]\npackages = ["lib"]\n',
    "lib/__init__.py": "from ._core import Client, make\n",
    "lib/_core.py": (
        "import hashlib\n\n\nclass Base:\n    def close(self):\n        pass\n\n\nclass Client(Base):\n"
        "    def send(self, data):\n        return hashlib.md5(data)\n\n\ndef make() -> Client:\n    return Client()\n"
    ),
}
APPLICATION = {
    "app.py": (
        "import lib\n\n\ndef go(x):\n    client = lib.make()\n    client.send(b'')\n    client.close()\n    x.send()\n"
    ),
    "notes.txt": "nothing\n",
}


def knowing(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "knowingd.cli", *arguments, "--home", str(home)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def answer(home: Path, *arguments: str) -> Any:
    done = knowing(home, *arguments, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("query")
    for name, files in (("lib", LIBRARY), ("application", APPLICATION)):
        for path, text in files.items():
            (root / name / path).parent.mkdir(parents=True, exist_ok=True)
            (root / name / path).write_text(text)
    found = answer(root / "home", "add", str(root / "lib"), str(root / "application"))
    assert [one["repo"] for one in found["repos"]] == ["local/lib", "local/application"]
    fields = {"repo", "ref", "commit", "files", "parsed", "failed", "skipped", "nodes", "edges", "seconds", "snapshot"}
    assert all(fields <= one.keys() for one in found["repos"])
    return root / "home"


@pytest.mark.parametrize("text", ["lib.Client.send", "python://lib.Client.send", "send", "_core.Client.send"])
def test_callers_are_found_by_any_name_that_a_person_would_type(home: Path, text: str) -> None:
    found = answer(home, "callers", text)
    assert found["symbol"]["name"] == "Client.send"
    (caller,) = found["callers"]
    assert (caller["repo"], caller["name"], caller["file"], caller["line"]) == ("local/application", "go", "app.py", 6)
    assert caller["sites"] == [{"file": "app.py", "line": 6, "col": 11}]
    assert caller["via"] == "python://lib.make().send"
    assert {"commit", "package", "kind", "edge_type", "provenance", "confidence", "depth"} <= caller.keys()
    assert (found["repos_searched"], found["unresolved"], found["ambiguous"]) == (2, 1, 0)
    again = answer(home, "callers", found["symbol"]["hash"])
    assert again == found


def test_an_inherited_method_has_the_callers_of_its_subclass(home: Path) -> None:
    (caller,) = answer(home, "callers", "lib._core.Base.close")["callers"]
    assert (caller["name"], caller["via"]) == ("go", "python://lib.make().close")


def test_a_name_of_the_standard_library_has_callers_though_nobody_defines_it(home: Path) -> None:
    found = answer(home, "callers", "hashlib.md5")
    assert [one["name"] for one in found["callers"]] == ["Client.send"]
    assert answer(home, "callers", "python://hashlib.sha3_256")["callers"] == []


def test_what_a_repository_should_define_and_does_not_is_not_found(home: Path) -> None:
    done = knowing(home, "callers", "python://lib.Client.sendd", "--json")
    assert done.returncode == 4
    assert json.loads(done.stdout)["error"]["code"] == "not-found"


def test_a_name_of_several_symbols_lists_them(home: Path, tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "a.py").write_text("def twice():\n    pass\n")
    (tmp_path / "two" / "b.py").write_text("def twice():\n    pass\n")
    knowing(home, "add", str(tmp_path / "two"))
    done = knowing(home, "callers", "twice", "--json")
    assert done.returncode == 2
    assert len(json.loads(done.stdout)["error"]["choices"]) == 2
    knowing(home, "remove", "two", "--purge")


def test_what_is_unresolved_is_shown_when_asked_for(home: Path) -> None:
    text = knowing(home, "callers", "lib.Client.send", "--include-unresolved").stdout
    assert "unresolved://python/send" in text
    assert "unresolved://" not in knowing(home, "callers", "lib.Client.send").stdout


def test_callees_say_where_they_are_defined(home: Path) -> None:
    found = answer(home, "callees", "go")
    by_name = {one["target"]["name"]: [each["name"] for each in one["resolved"]] for one in found["callees"]}
    assert by_name == {
        "python://lib.make": ["make"],
        "python://lib.make().send": ["Client.send"],
        "python://lib.make().close": ["Base.close"],
    }


def test_an_export_has_the_fields_of_the_contract(home: Path, tmp_path: Path) -> None:
    found = json.loads(knowing(home, "export", "application", "--format", "json").stdout)
    assert all({"hash", "repo", "package", "name", "kind", "file", "line"} <= one.keys() for one in found["nodes"])
    calls = [one for one in found["edges"] if one["type"] == "calls"]
    fields = {"source", "target", "type", "provenance", "confidence", "sites", "resolved"}
    assert all(fields <= one.keys() for one in calls)
    resolved = {one["resolved"]["canonical"] for one in calls if one["resolved"]}
    assert resolved == {"lib._core.make", "lib._core.Client.send", "lib._core.Base.close"}
    for form, start in (("dot", "digraph"), ("mermaid", "graph"), ("graphml", "<?xml")):
        target = tmp_path / f"x.{form}"
        assert knowing(home, "export", "application", "--format", form, "-o", str(target)).returncode == 0
        assert target.read_text().startswith(start)


def test_dangling_names_say_where_they_lead(home: Path) -> None:
    rows = {one["name"]: one["state"] for one in answer(home, "dangling", "application")["dangling"]}
    assert rows["python://lib.make().send"] == "resolved"
    assert rows["unresolved://python/send"] == "unresolved"
    assert answer(home, "dangling", "lib", "--by", "reason")["totals"]["standard library"] >= 1


def test_search_finds_words_in_all_repositories(home: Path) -> None:
    assert answer(home, "search", "client send")["results"][0]["name"] == "Client.send"
    assert answer(home, "search", '") OR (')["results"] is not None


def test_stale_says_what_changed_since(home: Path) -> None:
    assert not any(one["stale"] for one in answer(home, "stale")["repos"])
    (home.parent / "application" / "app.py").write_text(APPLICATION["app.py"] + "\n\ndef more():\n    go(1)\n")
    (row,) = [one for one in answer(home, "stale")["repos"] if one["stale"]]
    assert row["repo"] == "local/application"
    answer(home, "index", "application")
    assert answer(home, "diff", "application")["symbols"]["added"][0]["name"] == "more"
    (home.parent / "application" / "app.py").write_text(APPLICATION["app.py"])
    answer(home, "index")


@pytest.mark.parametrize(
    "arguments", [["add"], ["add", "/nowhere"], ["index", "nobody"], ["callers", "nothing.at.all"]]
)
def test_bad_input_is_one_sentence_and_an_exit_code(home: Path, arguments: list[str]) -> None:
    done = knowing(home, *arguments)
    assert done.returncode in (2, 4)
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr


def test_a_name_that_only_one_language_could_use_is_of_that_language() -> None:
    assert [one.name for one in meant("os.system", Scope((), None))] == ["python://os.system"]
    both = [one.name for one in meant("time.Time", Scope((), None))]
    assert both == ["go://time.Time", "python://time.Time"]
