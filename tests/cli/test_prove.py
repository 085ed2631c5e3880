"""`knowing prove*` and `trust`, as people and scripts use them, and misuse them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from prove.make_bundles import SAMPLES


def knowing(home: Path, *words: str | bytes) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "knowingd.cli", *words, "--home", str(home)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("prove")
    for name, files in SAMPLES.items():
        for path, text in files.items():
            (root / name / path).parent.mkdir(parents=True, exist_ok=True)
            (root / name / path).write_text(text)
    assert knowing(root / "home", "add", *(str(root / name) for name in SAMPLES), "-q").returncode == 0
    return root / "home"


def test_an_auditor_s_round(home: Path, tmp_path: Path) -> None:
    trust, bundle = str(tmp_path / "trust.json"), str(tmp_path / "bundle.json")
    assert knowing(home, "trust", "export", "--name", "Zürich", "-o", trust).returncode == 0
    done = knowing(home, "prove-callers", "lib.make", "--all", "-o", bundle)
    assert done.returncode == 0
    assert done.stdout.startswith('Exactly 1 symbol calls the function "make" in "lib/_core" of local/lib:\n')
    assert f"check it with `knowing verify {bundle} --trust FILE`" in done.stdout
    done = knowing(home, "verify", bundle, "--trust", trust)
    assert done.returncode == 0
    assert 'Signed by:\n  - "Zürich"' in done.stdout
    done = knowing(home, "prove-absent", "--callers-of", "lib.unused", "--repo", "application", "-o", bundle, "--json")
    assert "by local/application" in json.loads(done.stdout)["statement"]


def test_a_terminal_without_the_letters_is_no_reason_to_fail(home: Path, tmp_path: Path) -> None:
    trust, bundle = str(tmp_path / "trust.json"), str(tmp_path / "bundle.json")
    knowing(home, "trust", "export", "--name", "Zürich", "-o", trust)
    knowing(home, "prove-callers", "lib.make", "-o", bundle, "-q")
    for command in ("-m knowingd.cli verify", "-m knowing_protocol verify"):
        done = subprocess.run(
            [sys.executable, *command.split(), bundle, "--trust", trust],
            capture_output=True,
            env={"PYTHONIOENCODING": "ascii", "PATH": "", "HOME": str(tmp_path)},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert b"Z\\xfcrich" in done.stdout


MISTAKES: dict[str, tuple[list[str | bytes], int, str]] = {
    "a directory to write to": (["prove-callers", "lib.make", "-o", "."], 2, "Is a directory"),
    "a directory to export to": (["trust", "export", "-o", "."], 2, "Is a directory"),
    "a directory that is not there": (["trust", "export", "-o", "nowhere/t.json"], 2, "No such file or directory"),
    "a trust file that is none": (
        ["prove-callers", "lib.make", "--trust", __file__, "-o", "b.json"],
        2,
        "no trust file",
    ),
    "no trust file": (["prove-callers", "lib.make", "--trust", "nowhere", "-o", "b.json"], 4, "No such file"),
    "a name that nobody could read": (["trust", "export", "--name", "x" * 300], 2, "nobody could read"),
    "no pattern": (["trust", "export", "--repo="], 2, "nobody could read"),
    "all of one relation": (["prove-absent", "app:check", "lib.make", "--all", "-o", "b.json"], 2, "--all is for"),
    "a source from outside": (["prove", "python://os.path.join", "lib.make", "-o", "b.json"], 2, "no repository here"),
    "an absence from outside": (["prove-absent", "os.path.join", "lib.make", "-o", "b.json"], 2, "no repository here"),
    "bytes for a symbol": (["prove-callers", b"a\xff", "-o", "b.json"], 2, "is not UTF-8"),
    "bytes for a commit": (["prove-callers", "lib.make", "--at", b"a\xff", "-o", "b.json"], 2, "is not UTF-8"),
    "a relation that is there": (
        ["prove-absent", "app:go", "lib.make", "-o", "b.json"],
        1,
        "not so: there is a relation",
    ),
    "callers that are there": (["prove-absent", "--callers-of", "lib.make", "-o", "b.json"], 1, "has 3 callers"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_a_sentence_and_an_exit_code(home: Path, tmp_path: Path, mistake: str) -> None:
    words, code, sentence = MISTAKES[mistake]
    done = subprocess.run(
        [sys.executable, "-m", "knowingd.cli", *words, "--home", str(home)],
        capture_output=True,
        cwd=tmp_path,
        check=False,
    )
    said = done.stderr.decode(errors="replace")
    assert done.returncode == code, said
    assert sentence in said
    assert "should not have happened" not in said
    assert not list(tmp_path.iterdir())
