"""The demo's two nodes: one serves what it indexed, the other pulls it, asks, and follows a change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import click

from knowingd.cli.demo_run import git, knowing, serving
from knowingd.errors import KnowingError

_FILE: Final = "src/flask/templating.py"
_BEFORE: Final = "    template = app.jinja_env.get_or_select_template(template_name_or_list)\n    return _render("
_AFTER: Final = _BEFORE.replace(
    "    return", '    context["file"] = click.format_filename(template.filename)\n    return'
)
_IMPORT: Final = ("import typing as t\n", "import typing as t\n\nimport click\n")
_SHARED: Final = ("flask", "click", "jinja2")


def two_nodes(alice: Path, bob: Path, sources: Path, question: str, *, say: bool) -> list[dict[str, Any]]:
    """Let the node at `bob` pull what the one at `alice` has, twice; what each sync moved."""
    with serving(alice, say=say):
        _tell("alice shares three of the four; for bob, werkzeug does not exist here", say=say)
        grants = [word for name in _SHARED for word in ("--grant", f"github.com/acme/{name}")]
        invitation = knowing(alice, "peer", "invite", *grants, say=say).strip()
        knowing(bob, "peer", "add", invitation, "--name", "alice", say=say)
        first = _sync(bob, say=say)
        _tell("the answer of before, now from bob's disk", say=say)
        knowing(bob, "callers", question, "--repo", "flask", say=say)
        _edit(sources / "flask", say=say)
        knowing(alice, "index", "flask", say=say)
        _tell("only what changed travels, and only what leads to the root that alice signed is kept", say=say)
        second = _sync(bob, say=say)
        knowing(bob, "callers", "click.format_filename", "--repo", "flask", say=say)
        _sync(bob, say=say)
        heads = [
            json.loads(knowing(home, "log", "flask", "--json", say=False))["snapshots"][0] for home in (alice, bob)
        ]
    if heads[0]["snapshot"] != heads[1]["snapshot"]:
        raise KnowingError("after the sync, the two nodes have different graphs of flask")
    _tell(f"both have entry {heads[0]['index']} of alice's log: flask, snapshot {heads[0]['snapshot'][:16]}", say=say)
    return first + second


def _sync(home: Path, *, say: bool) -> list[dict[str, Any]]:
    """Sync; what was moved, if that is for a program to read."""
    if say:
        knowing(home, "sync", say=True)
        return []
    found = json.loads(knowing(home, "sync", "--json", say=False))
    names = ("repo", "mode", "round_trips", "bytes_sent", "bytes_received", "added", "removed")
    repos = [one for peer in found["peers"] for one in peer["repos"] if one["mode"] != "noop"]
    return [{name: one[name] for name in names} for one in repos]


def _edit(repository: Path, *, say: bool) -> None:
    """One function of flask calls something of click that it did not call before."""
    path = repository / _FILE
    text = path.read_text("utf-8")
    if _BEFORE not in text:
        raise KnowingError(f"{_FILE} is not the one that the demo edits")
    path.write_text(text.replace(_BEFORE, _AFTER, 1).replace(*_IMPORT, 1), "utf-8")
    git(repository, "commit", "--quiet", "--all", "--message", "show which file is rendered")
    _tell("alice edits render_template in flask, which now calls click.format_filename, and commits", say=say)


def _tell(text: str, *, say: bool) -> None:
    if say:
        click.echo(f"\n# {text}")
