"""Mirrors: bare copies of remote repositories, made and updated whole or not at all.

A new mirror grows in a directory beside its place and is renamed when it is complete. Git asks nobody anything:
without a terminal, credential helpers or a user's configuration it has what ssh's agent and configuration, `~/.netrc`,
the proxy variables and the URL give it. User info of an http(s) URL is passed in a header, through the environment, so
that it stands neither on a command line nor in the mirror. Time is limited by progress: a transfer that moves may take
as long as it needs.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import re
import selectors
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import unquote

from knowingd.errors import BusyError, NotFoundError, UsageError
from knowingd.source import gitrun
from knowingd.source.errors import FetchError, SourceError, printable

STALLED_SECONDS: Final = 120.0
"""How long a transfer may say nothing."""
_MANY_PACKS: Final = 30

_KEPT: Final = (
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "SSH_AUTH_SOCK", "HOME"),
)
_SETTINGS: Final = (
    ("core.hooksPath", os.devnull),
    ("core.fsmonitor", "false"),
    ("credential.helper", ""),
    ("fetch.recurseSubmodules", "false"),
    ("fetch.writeCommitGraph", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("http.lowSpeedLimit", "1"),
    ("http.lowSpeedTime", str(int(STALLED_SECONDS))),
    ("init.defaultBranch", "main"),
    ("transfer.credentialsInUrl", "die"),
)
_PROGRESS: Final = re.compile(rb"(?:remote: )?([A-Z][A-Za-z ]{2,40}):\s+(?:\d+% \()?(\d+)(?:/(\d+))?")
_HTTP: Final = re.compile(r"(?i:(https?)://)(?:([^/@]*)@)?(.*)", re.DOTALL)
_SSH_PASSWORD: Final = re.compile(r"(?i:(ssh://[^/@:]*)):[^/@]*@")


class Progress(NamedTuple):
    """How far a transfer is: the stage in git's words, and a count of objects; the total where it is known."""

    stage: str
    done: int
    total: int | None


def mirror(
    url: str,
    directory: Path,
    *,
    progress: Callable[[Progress], None] | None = None,
    stalled_seconds: float = STALLED_SECONDS,
) -> Path:
    """Make the mirror of a URL in a directory, or bring it up to date; gives the directory."""
    remote = _Remote(url, progress, stalled_seconds)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with _locked(directory):
        _sweep(directory)
        if directory.exists():
            _update(remote, directory)
        else:
            _make(remote, directory)
    return directory


def without_secret(url: str) -> str:
    """A URL as it may be kept: the user of ssh stays, a password or token does not."""
    return re.sub(r"(?i)^(https?://)[^/@]*@", r"\1", re.sub(r"^([a-z+]+://[^/@:]*):[^/@]*@", r"\1@", url))


class _Remote:
    """A URL without its secrets, and how to run git against it."""

    def __init__(self, url: str, progress: Callable[[Progress], None] | None, stalled_seconds: float) -> None:
        if url.startswith("-") or re.search(r"[\x00-\x20\x7f]", url) or re.match(r"[\w-]+::", url):
            raise UsageError("the URL is not one that repositories are fetched from", hint="write https://host/path")
        self._secret = ""
        http = _HTTP.fullmatch(url)
        if http is not None and http[2]:
            user, _, password = http[2].partition(":")
            self._secret = base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
            url = f"{http[1].lower()}://{http[3]}"
        self.url = _SSH_PASSWORD.sub(r"\1@", url)
        self._progress = progress
        self._stalled_seconds = stalled_seconds

    def run(self, arguments: Sequence[str], extra: dict[str, str] | None = None) -> bytes:
        """Run git with its progress told, and give its output; FetchError if it fails or stalls."""
        settings = list(_SETTINGS)
        if self._secret:
            settings.append((f"http.{self.url}.extraHeader", f"Authorization: Basic {self._secret}"))
        variables = {name: os.environ[name] for name in _KEPT if name in os.environ}
        variables |= {
            "GIT_ALLOW_PROTOCOL": "https:http:ssh:git:file",
            "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oControlMaster=no -oControlPath=none",
            "GIT_CONFIG_COUNT": str(len(settings)),
        }
        for number, (key, value) in enumerate(settings):
            variables[f"GIT_CONFIG_KEY_{number}"] = key
            variables[f"GIT_CONFIG_VALUE_{number}"] = value
        with subprocess.Popen(  # noqa: S603 - the program is git, the arguments are not read by a shell
            gitrun.command(arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=gitrun.environment({**variables, **(extra or {})}),
            cwd="/",
            start_new_session=True,
        ) as process:
            try:
                output, said = self._followed(process)
                process.wait()
            finally:
                gitrun.end(process)
        if process.returncode != 0:
            raise self._failure(said)
        return output

    def _followed(self, process: subprocess.Popen[bytes]) -> tuple[bytes, list[bytes]]:
        """Read both pipes until they close: the output, and the last lines that are not progress."""
        assert process.stdout is not None
        assert process.stderr is not None
        output = bytearray()
        said: list[bytes] = []
        rest = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            selector.register(process.stderr, selectors.EVENT_READ)
            alive = time.monotonic()
            while selector.get_map():
                ready = selector.select(timeout=1.0)
                if not ready and process.poll() is not None:
                    break  # a grandchild that stays behind may hold the pipes open
                if not ready and time.monotonic() - alive > self._stalled_seconds:
                    raise FetchError(
                        f"nothing came from {self.shown} for {self._stalled_seconds:.0f} seconds",
                        code="stalled",
                        hint="check the network and the host, then try again",
                    )
                for key, _ in ready:
                    chunk = os.read(key.fd, 65536)
                    alive = time.monotonic()
                    if not chunk:
                        selector.unregister(key.fileobj)
                    elif key.fileobj is process.stdout:
                        output += chunk
                        if len(output) > 64 << 20:
                            raise FetchError(f"{self.shown} answers without end")
                    else:
                        *lines, rest = re.split(rb"[\r\n]", rest + chunk)
                        rest = rest[-4096:]
                        said = (said + [line for line in lines if not self._told(line)])[-20:]
        return bytes(output), [*said, rest]

    def _told(self, line: bytes) -> bool:
        match = _PROGRESS.match(line)
        if match is None:
            return not line.strip()
        if self._progress is not None:
            self._progress(Progress(match[1].decode(), int(match[2]), int(match[3]) if match[3] else None))
        return True

    @property
    def shown(self) -> str:
        """The URL as it may be printed."""
        return printable(self.url)

    def _failure(self, said: list[bytes]) -> Exception:
        text = printable(b" ".join(said), 600)
        folded = text.lower()
        if "dubious ownership" in folded:
            return SourceError(
                f"{self.shown} belongs to another user, so git does not trust it (dubious ownership)",
                code="dubious-ownership",
                hint="add the path itself, after `git config --global --add safe.directory PATH`",
            )
        refusals = ("authentication failed", "could not read username", "permission denied", "host key verification")
        if any(refusal in folded for refusal in refusals):
            return FetchError(
                f"{self.shown} does not let us in: {text}",
                code="no-access",
                hint="give access by ssh's agent, by ~/.netrc, or by a token in the URL (it is not kept)",
            )
        missing = ("not found", "does not exist", "does not appear to be a git repository", "no such file")
        if any(one in folded for one in missing):
            return NotFoundError(
                f"there is no repository at {self.shown}: {text}", hint="check the URL and your access"
            )
        return FetchError(f"{self.shown} could not be fetched: {text}", hint="check the network, then try again")


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Hold a mirror for ourselves; the lock goes when the process does."""
    with (directory.parent / f"{directory.name}.lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BusyError(
                f"somebody else is updating {printable(str(directory))}", hint="wait, then try again"
            ) from None
        yield


def _make(remote: _Remote, directory: Path) -> None:
    partial = Path(tempfile.mkdtemp(prefix=f"{directory.name}.partial-", dir=directory.parent))
    try:
        remote.run(("clone", "--mirror", "--template=", "--progress", "--", remote.url, str(partial)))
        _sync(partial)
        partial.rename(directory)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _sweep(directory: Path) -> None:
    """Remove what clones left that were killed; whoever holds the lock is the only one that is not dead.

    The git of a killed process may live a moment longer, so each clone has a directory of its own name.
    """
    for partial in directory.parent.iterdir():
        if partial.name.startswith(f"{directory.name}.partial-"):
            shutil.rmtree(partial, ignore_errors=True)


def _update(remote: _Remote, directory: Path) -> None:
    place = {"GIT_DIR": str(directory)}
    known = gitrun.run(
        ("config", "--file", str(directory / "config"), "--no-includes", "--get", "remote.origin.url"),
        allowed=(0, 1, 128),
    )
    if os.fsdecode(known).strip() != remote.url:
        raise UsageError(
            f"{printable(str(directory))} is not the mirror of {remote.shown}", hint="use another directory"
        )
    # Not --atomic: with it, git refuses a branch `a/b` where `a` was deleted. Objects come before any ref moves.
    remote.run(
        (
            "fetch",
            "--prune",
            "--force",
            "--progress",
            "--no-write-fetch-head",
            "--",
            "origin",
            "+refs/*:refs/*",
        ),
        place,
    )
    answer = remote.run(("ls-remote", "--symref", "--", "origin", "HEAD"), place)
    match = re.match(rb"ref: (refs/heads/[^\x00-\x20\x7f]+)\tHEAD\n", answer)
    if match is not None:
        gitrun.run(("symbolic-ref", "HEAD", os.fsdecode(match[1])), extra=place)
    if sum(1 for _ in (directory / "objects" / "pack").glob("*.pack")) > _MANY_PACKS:
        # Every update adds a pack, and reading slows down with their number.
        with contextlib.suppress(SourceError):  # the mirror is up to date and whole without it
            gitrun.run(("repack", "-a", "-d", "-q"), extra=place)


def _sync(directory: Path) -> None:
    """Have the directory on disk before it gets its name."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
