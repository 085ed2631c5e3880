"""`knowing token`, as a person or a script uses it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from knowingd.cli import main

Run = Callable[..., tuple[int, str, str]]
TOKEN = re.compile(r"knowing_([0-9a-f]{8})_[A-Za-z0-9_-]{43}")


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def knowing(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as caught:
            main(["token", *arguments, "--home", str(tmp_path / "home")])
        code = caught.value.code
        assert isinstance(code, int)
        return code, *capsys.readouterr()

    return knowing


def answer(run: Run, *arguments: str) -> Any:
    code, out, _ = run(*arguments, "--json")
    assert code == 0, out
    return json.loads(out)


def test_a_token_is_printed_once_and_its_secret_is_kept_nowhere(run: Run, tmp_path: Path) -> None:
    code, out, err = run("create", "--scope", "read", "--repo", "github.com/acme/*", "--name", "laptop of Ann")
    assert code == 0
    assert TOKEN.fullmatch(out.strip())  # so that a script takes stdout as it is
    assert out.strip() not in err
    secret = out.strip().split("_", 2)[2]  # which may have underscores of its own
    assert secret not in "".join(run("list")[1:]) + "".join(run("list", "--json")[1:])
    for file in (tmp_path / "home").rglob("*"):
        assert not file.is_file() or secret.encode() not in file.read_bytes()


def test_create_says_what_was_made(run: Run) -> None:
    made = answer(run, "create", "--scope", "publish", "--repo", "https://GitHub.com/Acme/*", "--expires", "30")
    match = TOKEN.fullmatch(made["token"])
    assert match is not None
    assert (made["id"], made["scope"], made["repo"], made["state"]) == (
        match[1],
        "publish",
        "github.com/acme/*",
        "valid",
    )
    assert made["expires"] - made["created"] == 30 * 86400
    (listed,) = answer(run, "list")["tokens"]
    assert {**listed, "token": made["token"]} == made


def test_a_revoked_token_stays_in_the_list_and_revoking_it_again_changes_nothing(run: Run) -> None:
    made = answer(run, "create", "--scope", "read", "--repo", "*")
    first = answer(run, "revoke", made["id"])
    assert first["state"] == "revoked"
    assert abs(first["revoked"] - time.time()) < 60
    assert answer(run, "revoke", made["token"])["revoked"] == first["revoked"]
    assert answer(run, "list")["tokens"] == [first]
    assert made["id"] in run("list")[1]


def test_a_leaked_token_is_revoked_without_writing_it_down_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    made = answer(run, "create", "--scope", "read", "--repo", "*")
    monkeypatch.setattr("sys.stdin", io.StringIO(made["token"] + "\n"))
    assert answer(run, "revoke", "-")["id"] == made["id"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["create", "--scope", "read"], 2),
        (["create", "--repo", "*"], 2),
        (["create", "--scope", "admin", "--repo", "*"], 2),
        (["create", "--scope", "read", "--repo", "two words"], 2),
        (["create", "--scope", "read", "--repo", ""], 2),
        (["create", "--scope", "read", "--repo", "*", "--expires", "0"], 2),
        (["revoke", "ffffffff"], 4),
        (["revoke", f"knowing_ffffffff_{'A' * 43}"], 4),
    ],
)
def test_bad_input_is_one_sentence_and_an_exit_code(run: Run, arguments: list[str], code: int) -> None:
    found, out, _ = run(*arguments, "--json")
    assert found == code
    assert json.loads(out)["error"]["message"]
    assert answer(run, "list") == {"tokens": []}


def test_names_cannot_move_the_cursor(run: Run) -> None:
    answer(run, "create", "--scope", "read", "--repo", "*", "--name", "a\x1b[2Jb\u202ec\nd")
    listed = run("list")[1]
    assert "\x1b" not in listed
    assert "\u202e" not in listed
    assert len(listed.splitlines()) == 2
