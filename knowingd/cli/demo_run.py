"""How the demo runs programs: this one, as a person at some node would, and git. What it starts, it ends."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

import click

from knowingd.errors import KnowingError

_START: Final = 30.0
_STOP: Final = 15.0
_PROGRAM: Final = (sys.executable, "-m", "knowingd.cli")
_LONGEST: Final = 48
# Nothing of the user's own configuration: no hooks, no signing, another name.
_GIT: Final = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}


def knowing(home: Path, *arguments: str, say: bool) -> str:
    """Run a command of ours at the node whose home is given; what it prints."""
    if say:
        _show(home.name, "knowing", *arguments)
    done = subprocess.run(  # noqa: S603 - this very program
        [*_PROGRAM, *arguments, "--home", str(home)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise KnowingError(f"knowing {arguments[0]} failed: {done.stderr.strip()}")
    if say:
        click.echo("\n".join(map(_cut, done.stdout.rstrip().splitlines())))
    return done.stdout


def git(place: Path, *arguments: str) -> None:
    """Run git in a directory, with nothing of the user's configuration."""
    who = ("-c", "user.name=demo", "-c", "user.email=demo@example.com", "-c", "init.defaultBranch=main")
    done = subprocess.run(  # noqa: S603
        ["git", *who, *arguments],  # noqa: S607 - whichever git the user has
        cwd=place, env={**os.environ, **_GIT}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise KnowingError(f"git {arguments[0]} failed: {done.stderr.strip()}")


@contextmanager
def serving(home: Path, *, say: bool) -> Iterator[None]:
    """A node that serves on a free port of this machine, in a process of its own, until the block ends."""
    if say:
        _show(home.name, "knowing", "serve")
    log = home.parent / f"{home.name}-serve.log"
    with log.open("w") as errors:
        process = subprocess.Popen(  # noqa: S603 - this very program
            [*_PROGRAM, "serve", "--listen", "127.0.0.1:0", "--home", str(home)],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        assert process.stdout is not None
        ready, _, _ = select.select([process.stdout], [], [], _START)
        told = process.stdout.readline() if ready else ""
        if not told:
            raise KnowingError(f"knowing serve did not start: {log.read_text().strip()[-500:]}")
        if say:
            click.echo(told.rstrip())
        yield
    finally:
        process.terminate()
        try:
            process.wait(_STOP)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
        signal.signal(signal.SIGTERM, before)


def _terminated(_number: int, _frame: object) -> NoReturn:
    """Whoever ends the demo also ends what it started."""
    raise SystemExit(128 + signal.SIGTERM)


def _show(who: str, *words: str) -> None:
    click.echo(f"\n{who}$ {' '.join(_short(word) for word in words)}")


def _short(word: str) -> str:
    """A word of a command line as the demo shows it: paths by their last part, invitations cut."""
    if word.startswith("/"):
        return Path(word).name
    return _cut(word)


def _cut(text: str) -> str:
    return f"{text[:_LONGEST]}…" if text.startswith("knowing-invite") else text
