"""What stands in deploy/ and in the guides names commands, options and settings that exist."""

from __future__ import annotations

import configparser
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest

from knowingd.cli import cli
from knowingd.http.callers import MAX_REQUEST
from knowingd.http.events import HEARTBEAT
from knowingd.settings import read_settings

yaml: Any = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
GUIDE = ROOT / "docs" / "guide" / "federation.md"
ACTION = yaml.safe_load((DEPLOY / "github" / "action.yml").read_text())
WORKFLOW = yaml.safe_load((DEPLOY / "github" / "example-workflow.yml").read_text())
GITLAB = yaml.safe_load((DEPLOY / "gitlab" / "knowing.yml").read_text())
NGINX = (DEPLOY / "nginx" / "knowing.conf").read_text()
SERVICE = (DEPLOY / "systemd" / "knowing.service").read_text()


def commands(text: str) -> list[list[str]]:
    """The lines of a text, comments included, that run this program, without what stands before its name."""
    found = []
    for line in text.splitlines():
        plain = re.sub(r"^[\s#]*(?:[a-z]*\$ )?", "", line).replace("${FINGERPRINT:+", "").removesuffix("}")
        try:
            words = shlex.split(plain, comments=True)
        except ValueError:
            continue  # a sentence with an apostrophe
        while words and re.match(r"[A-Z_]+=", words[0]):
            words.pop(0)
        for place, word in enumerate(words):
            name = word.rpartition("/")[2]
            if name in ("knowing", "knowingd") and ((place == 0 and word == name) or "/bin/" in word):
                found.append([*(["serve"] if name == "knowingd" else []), *words[place + 1 :]])
                break
    return found


def check(words: list[str]) -> None:
    """That a command line names a command, and options that it has."""
    command: click.Command | None = cli
    context = cli.make_context("knowing", ["--help"], resilient_parsing=True)
    words = list(words)
    while isinstance(command, click.Group):
        name = words.pop(0)
        assert name in command.list_commands(context), name
        command = command.get_command(context, name)
    assert command is not None
    known = {option for parameter in command.params for option in parameter.opts}
    for word in words:
        if word.startswith("-"):
            assert word.partition("=")[0] in known, (command.name, word)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("\n".join(step["run"] for step in ACTION["runs"]["steps"]), {"publish"}),
        ("\n".join(GITLAB["knowing-publish"]["script"]), {"publish"}),
        ((DEPLOY / "github" / "action.yml").read_text(), {"publish", "token"}),
        ((DEPLOY / "gitlab" / "knowing.yml").read_text(), {"token"}),
        (NGINX, {"serve"}),
        (SERVICE, {"peer"}),
        (
            GUIDE.read_text(),
            {"serve", "peer", "sync", "status", "evidence", "publish", "token", "fsck", "index", "callers"},
        ),
    ],
    ids=["action", "gitlab", "action with comments", "gitlab with comments", "nginx", "systemd", "guide"],
)
def test_commands_and_their_options_exist(text: str, names: set[str]) -> None:
    found = commands(text)
    assert {words[0] for words in found} >= names
    for words in found:
        check(words)


def test_the_check_finds_what_does_not_exist() -> None:
    for line in ("knowing publsh HUB", "knowing publish HUB --token x", "knowing peer invit", "knowingd --listne x"):
        (words,) = commands(line)
        with pytest.raises(AssertionError):
            check(words)


def test_the_action_takes_the_token_from_a_secret_and_never_from_a_command_line() -> None:
    steps = ACTION["runs"]["steps"]
    for step in steps:
        assert "${{" not in step["run"]  # what others can write must not become a program
    assert steps[-1]["env"]["KNOWING_TOKEN"] == "${{ inputs.token }}"
    used = {name for step in steps for name in re.findall(r"inputs\.([a-z-]+)", str(step["env"]))}
    assert used == set(ACTION["inputs"])
    (job,) = WORKFLOW["jobs"].values()
    given = job["steps"][-1]["with"]
    assert given.keys() <= ACTION["inputs"].keys()
    assert {name for name, one in ACTION["inputs"].items() if one.get("required")} <= given.keys()
    assert "secrets." in given["token"]


def test_runners_install_the_distribution_by_its_name() -> None:
    assert any('install --quiet --disable-pip-version-check "knowingd' in one["run"] for one in ACTION["runs"]["steps"])
    assert any("pip install" in line and line.endswith(" knowingd") for line in GITLAB["knowing-publish"]["script"])


def _block(name: str) -> str:
    found = re.search(rf"^    location {re.escape(name)} {{\n(.*?)^    }}", NGINX, re.MULTILINE | re.DOTALL)
    assert found, name
    return found[1]


def test_nginx_passes_on_what_is_signed_and_buffers_no_events() -> None:
    lines = [line.strip() for line in NGINX.splitlines() if line.strip() and not line.strip().startswith("#")]
    assert all(line.endswith((";", "{", "}")) for line in lines)
    assert NGINX.count("{") == NGINX.count("}")
    # A path behind the address would make nginx write the path anew.
    assert set(re.findall(r"proxy_pass (.*);", NGINX)) == {"http://knowing"}
    assert "rewrite" not in " ".join(lines)
    assert "proxy_buffering off;" in _block("= /v1/events")
    assert f"client_max_body_size {MAX_REQUEST >> 20}m;" in lines
    assert "proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;" in lines
    timeout = re.search(r"proxy_read_timeout (\d+)s;", NGINX)
    assert timeout
    assert int(timeout[1]) > 3 * HEARTBEAT
    # Fields that are set in a block replace those of the server: there are none.
    assert all("proxy_set_header" not in _block(name) for name in ("/", "= /v1/events"))


def test_the_service_starts_the_program_for_service_managers() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(SERVICE)
    words = unit["Service"]["ExecStart"].split()
    assert words[0].endswith("/knowingd")
    check(["serve", *words[1:]])
    assert unit["Service"]["Environment"] == "KNOWING_HOME=/var/lib/knowing"


def test_settings_in_the_guide_are_settings(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (tmp_path / "knowing.toml").write_text(text)
    settings = read_settings(tmp_path)
    assert settings.listen
    assert settings.grants


def test_files_that_the_guide_points_to_exist() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", GUIDE.read_text()):
        assert (GUIDE.parent / target).exists(), target
