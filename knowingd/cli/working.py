"""How working views show: the option to leave them out, and what answers say of them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

import click
from knowing_protocol.render import visible

base_option = click.option(
    "--base", is_flag=True, help="Ask the signed snapshots alone, without uncommitted changes of work trees."
)


def clock(timestamp: int) -> str:
    """A recent moment as people read it: the time of day, and the day if it is another one."""
    local = time.localtime(timestamp)
    today = time.localtime()[:3] == local[:3]
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", local)


def uncommitted(view: Mapping[str, Any]) -> str:
    """A working view as people read it."""
    files = f"{view['files']:,} {'file' if view['files'] == 1 else 'files'}"
    return f"with uncommitted changes as of {clock(view['time'])} ({files})"


def working_lines(views: Iterable[Mapping[str, Any]]) -> list[str]:
    """Which answers come from more than what was committed and signed, by the `working` of a document's `reach`."""
    return [f"{visible(one['repo'])}: {uncommitted(one)}; --base leaves them out" for one in views]
