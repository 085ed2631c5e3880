"""What the demo starts, it ends, however it ends itself."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from knowingd.cli.demo_run import knowing, serving
from knowingd.errors import KnowingError


def _where(home: Path) -> str | None:
    found: str | None = json.loads(knowing(home, "status", "--json", say=False))["serving"]
    return found


def test_without_a_network_it_still_proves_and_refuses_forgeries(tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "knowingd.cli", *words],
            cwd=tmp_path,
            env={**os.environ, "PIP_NO_INDEX": "1"},
            capture_output=True,
            text=True,
            check=False,
        )

    done = run("demo", "--json", "-o", "kept")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert not found["packages"]
    assert [step["verdict"] for step in found["steps"]] == ["verified"] * 3 + ["rejected"] * 2
    assert [step["code"] for step in found["steps"][3:]] == ["inbound-incomplete", "scope-incomplete"]
    assert 'calls the method "Client.send"' in found["steps"][0]["statement"]
    again = run("demo", "-o", "kept")
    assert (again.returncode, again.stdout) == (2, "")
    assert "has a demo inside already" in again.stderr
    shown = run("demo")
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("VERIFIED") == 3
    assert shown.stdout.count("REJECTED") == 2
    assert max(map(len, shown.stdout.splitlines())) <= 120


def test_a_node_serves_for_as_long_as_the_block_lasts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = tmp_path / "alice"
    with serving(home, say=True):
        url = _where(home)
        assert url is not None
    assert f"at {url}\n" in capsys.readouterr().out
    assert _where(home) is None


def test_it_ends_when_the_block_fails(tmp_path: Path) -> None:
    home = tmp_path / "alice"
    with pytest.raises(KnowingError, match="knowing callers failed: error: no symbol is called 'nothing'"):  # noqa: SIM117
        with serving(home, say=False):
            knowing(home, "callers", "nothing", say=False)
    assert _where(home) is None


def test_it_ends_when_the_demo_is_told_to_end(tmp_path: Path) -> None:
    home = tmp_path / "alice"
    code = (
        "import os, signal, sys, time; from pathlib import Path; from knowingd.cli.demo_run import serving\n"
        "with serving(Path(sys.argv[1]), say=False): os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(home)], check=False, timeout=60)
    assert done.returncode == 128 + signal.SIGTERM
    assert _where(home) is None


def test_a_node_that_does_not_start_says_why(tmp_path: Path) -> None:
    home = tmp_path / "alice"
    home.mkdir()
    (home / "knowing.toml").write_text("[nonsense]\n")
    with pytest.raises(KnowingError, match=r"there is no section \[nonsense\]"):  # noqa: SIM117
        with serving(home, say=False):
            pass
