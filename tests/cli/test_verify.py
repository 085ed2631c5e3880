"""`knowing verify` and its siblings, run as a user would: real processes, real files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import positive
import pytest

KNOWING = [sys.executable, "-m", "knowingd"]
MODULE = [sys.executable, "-m", "knowing_protocol"]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    case = positive.callers()
    (tmp_path / "bundle.json").write_text(case.bundle)
    (tmp_path / "trust.json").write_text(case.trust)
    return tmp_path


def run(where: Path, *arguments: str, program: list[str] = KNOWING) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*program, *arguments], cwd=where, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("program", [KNOWING, MODULE], ids=["knowing", "knowing_protocol"])
def test_both_verifiers_print_the_same(files: Path, program: list[str]) -> None:
    done = run(files, "verify", "bundle.json", "--trust", "trust.json", "--json", program=program)
    assert done.returncode == 0
    assert not done.stderr
    report = json.loads(done.stdout)
    assert report["verdict"] == "verified"
    assert "exactly 3 symbols call" in report["statement"]
    assert {"verdict", "statement", "not_covered", "checkpoints"} <= report.keys()


def test_people_read_the_statement_its_gaps_its_commits_and_who_signed(files: Path) -> None:
    done = run(files, "verify", "bundle.json", "--trust", "trust.json")
    assert done.returncode == 0
    for text in ("VERIFIED", "Exactly 3 symbols call", "Not covered:", "1 vendored", "4" * 40, '"hub"', "days ago"):
        assert text in done.stdout


def test_without_a_trust_file_the_exit_code_is_1(files: Path) -> None:
    done = run(files, "verify", "bundle.json")
    assert done.returncode == 1
    assert "CANNOT TELL" in done.stdout
    assert "no trust file" in done.stdout


def test_a_forgery_exits_3_with_its_reason(files: Path) -> None:
    text = (files / "bundle.json").read_text()
    (files / "bundle.json").write_text(text.replace('"name":"refund"', '"name":"refuse"'))
    done = run(files, "verify", "bundle.json", "--trust", "trust.json")
    assert done.returncode == 3
    assert done.stdout.startswith("REJECTED  seal")


def test_a_missing_file_exits_4_in_one_sentence(files: Path) -> None:
    done = run(files, "verify", "missing.json")
    assert done.returncode == 4
    assert done.stderr.count("\n") == 1
    assert "missing.json" in done.stderr


def test_a_directory_is_no_bundle(files: Path) -> None:
    done = run(files, "verify", ".")
    assert done.returncode == 4
    assert "Traceback" not in done.stderr


def test_a_bad_trust_file_is_a_usage_error_and_no_verdict(files: Path) -> None:
    (files / "trust.json").write_text("{}")
    done = run(files, "verify", "bundle.json", "--trust", "trust.json", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "missing-field"


def test_usage_errors_have_the_json_shape_too(files: Path) -> None:
    done = run(files, "verify", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "usage"


@pytest.mark.parametrize("command", ["nonsense", "--nonsense"])
def test_an_unknown_command_exits_2(files: Path, command: str) -> None:
    done = run(files, command)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_demo_verifies_three_bundles_and_refuses_two_forgeries(files: Path) -> None:
    done = run(files, "demo", "--json", "-o", "kept")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [step["verdict"] for step in found["steps"]] == ["verified"] * 3 + ["rejected"] * 2
    if found["packages"]:  # there are none without a network
        assert [one["mode"] for one in found["sync"]] == ["full"] * 3 + ["delta"]
        assert found["sync"][-1]["round_trips"] == 1
    kept = run(files, "verify", "kept/callers.json", "--trust", "kept/trust.json")
    assert kept.returncode == 0


def test_help_loads_no_heavy_package(files: Path) -> None:
    code = (
        "import sys; from knowingd.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'cryptography', 'aiohttp', 'sqlite3', 'rich'}))"
    )
    done = run(files, "-c", code, program=[sys.executable])
    assert done.stdout.splitlines()[-1] == "[]"


def test_output_into_a_closed_pipe_is_no_error(files: Path) -> None:
    line = f"{sys.executable} -m knowingd verify bundle.json --trust trust.json | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], cwd=files, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
