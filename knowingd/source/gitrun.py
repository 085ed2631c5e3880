"""Runs git so that neither the repository nor the environment can make it execute anything.

How: the environment is built anew and holds no `GIT_*` variable of the user's; system and user configuration are not
read; the configuration of a repository is not read either, because commands run in a `GIT_DIR` of our own
(`gitview.py`) that borrows only objects and references. So hooks, filters, textconv, external diffs, pagers, aliases,
fsmonitor, credential helpers, ssh commands, includes, grafts and replacements are not switched off one by one, they
are not there. Nothing may be fetched while reading, no terminal is attached, and every command has a time limit.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

from knowingd.source.errors import SourceError, printable

SECONDS: Final = 600.0
"""The limit for commands that list; those that stream are bounded by their reader."""

_PIPE_BYTES: Final = 1 << 20
_KEPT: Final = ("TMPDIR", "SYSTEMROOT")


@functools.cache
def _program(path: str) -> str:
    found = shutil.which("git", path=path)
    if found is None:
        raise SourceError("git is not installed", code="no-git", hint="install git 2.31 or newer")
    return found


def search_path() -> str:
    """The user's PATH without entries that depend on the current directory."""
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(entry for entry in entries if Path(entry).is_absolute())


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The whole environment of a git process."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {
        **kept,
        "PATH": search_path(),
        "LC_ALL": "C",
        "HOME": os.devnull,
        "XDG_CONFIG_HOME": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",  # for versions that do not know the line above
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "SSH_ASKPASS": "",
        "SSH_ASKPASS_REQUIRE": "never",
        "GIT_PAGER": "cat",
        "GIT_EDITOR": "false",
        **(extra or {}),
    }


def command(arguments: Sequence[str]) -> list[str]:
    """The command line of a git process."""
    return [_program(search_path()), "--no-pager", "--literal-pathspecs", *arguments]


def run(
    arguments: Sequence[str],
    *,
    extra: Mapping[str, str] | None = None,
    directory: Path | None = None,
    allowed: Sequence[int] = (0,),
) -> bytes:
    """Run a command to its end and give its output; SourceError if it fails or does not end."""
    # Cut off from our terminal it can ask nobody, and its children end with it.
    with subprocess.Popen(  # noqa: S603 - the program is git, the arguments are not read by a shell
        command(arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(extra),
        cwd=directory or "/",
        start_new_session=True,
    ) as process:
        try:
            output, errors = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise SourceError(
                f"`git {arguments[0]}` did not end within {SECONDS:.0f} seconds", code="git-timeout"
            ) from None
        finally:
            end(process)
    if process.returncode not in allowed:
        raise failure(arguments[0], process.returncode, errors)
    return output


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its children, if it still runs."""
    if process.poll() is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        except PermissionError:
            process.kill()
    process.wait()


def failure(verb: str, status: int, errors: bytes) -> SourceError:
    """The error of a command that failed, with what git said last."""
    lines = [line for line in errors.splitlines() if line.strip()]
    said = printable(lines[-1]) if lines else f"exit status {status}"
    return SourceError(
        f"`git {verb}` failed: {said}", code="git-failed", hint="`git fsck` finds damage in a repository"
    )


def start_reader(
    arguments: Sequence[str], requests: bytes, errors: IO[bytes], extra: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """Start a command that answers requests; it finds them in a file, so that no pipe can fill up and block."""
    with tempfile.TemporaryFile() as file:
        file.write(requests)
        file.seek(0)
        process = subprocess.Popen(  # noqa: S603 - as above
            command(arguments),
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment(extra),
            cwd="/",
            bufsize=_PIPE_BYTES,
            start_new_session=True,
        )
    _widen(process)
    return process


def _widen(process: subprocess.Popen[bytes]) -> None:
    """Make the pipe hold more, where the system can: both sides then work on without waiting for each other."""
    if process.stdout is not None and hasattr(fcntl, "F_SETPIPE_SZ"):
        with contextlib.suppress(OSError):  # a limit of the system's; the pipe works as it is
            fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
