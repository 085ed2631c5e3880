"""`knowingd`, for service managers: the same as `knowing serve`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def _program() -> list[str]:
    """How the console script runs, whether or not this version of it is installed."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    module, _, function = scripts["knowingd"].partition(":")
    return [sys.executable, "-c", f"from {module} import {function}; {function}()"]


def test_it_serves_says_where_and_ends_well_when_told(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*_program(), "--listen", "127.0.0.1:0", "--json"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "KNOWING_HOME": str(tmp_path / "home"), "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        text = ""
        while not text.endswith("}\n"):
            line = process.stdout.readline()
            assert line, text
            text += line
        assert json.loads(text)["url"].startswith("http://127.0.0.1:")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def test_wrong_options_exit_2_in_the_one_shape_of_errors(tmp_path: Path) -> None:
    command = [*_program(), "--listen", "nowhere", "--json", "--home", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "usage"
