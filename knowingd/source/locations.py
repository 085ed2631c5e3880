"""Where repositories are, as people write it: paths and URLs, one at a time or one a line in a file."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from knowing_protocol.errors import InvalidNameError
from knowing_protocol.urls import canonical_url

from knowingd.errors import NotFoundError, UsageError
from knowingd.source.errors import printable

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_SCP: Final = re.compile(r"[^/@\s]+@[^/:\s]+:")
_HOST_AND_PATH: Final = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::\d+)?/.")
_HOST_AND_SCP_PATH: Final = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+:[^/\s\d:]")
_FETCHABLE: Final = ("https", "http", "ssh", "git", "file")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_MAXIMUM_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class Location:
    """A directory on this machine, or a URL to mirror. The URL may hold a password: it is never shown."""

    path: Path | None = None
    url: str | None = field(default=None, repr=False)

    @property
    def shown(self) -> str:
        """What may be printed."""
        return printable(str(self.path) if self.path is not None else self.url or "")


def locate(text: str, base: Path) -> Location:
    """What a person means by a path or URL; paths are relative to `base`, and exist."""
    if not text or _CONTROL.search(text):
        raise UsageError("a path or URL is not empty and holds no control characters")
    scheme = _SCHEME.match(text)
    if scheme is not None or _SCP.match(text):
        return Location(url=_fetchable(text, scheme))
    path = Path(os.path.expanduser(text))  # noqa: PTH111 - Path.expanduser() raises where there is no home
    path = base / path
    if path.is_dir():
        return Location(path=path)
    if path.exists():
        raise UsageError(f"{printable(text)} is not a directory", hint="give the directory of the repository")
    if _HOST_AND_PATH.match(text):
        return Location(url=_fetchable(f"https://{text}", None))
    if _HOST_AND_SCP_PATH.match(text):
        return Location(url=_fetchable(text, None))
    raise NotFoundError(f"there is no directory {printable(text)}", hint="check the path; a URL starts with https://")


def list_repositories(file: Path) -> list[Location]:
    """The paths and URLs in a file, one a line; blank lines and lines that start with `#` do not count.

    Relative paths are relative to the directory of the file. What is written twice counts once. All lines that are
    wrong are named in one error.
    """
    try:
        with file.open("rb") as stream:
            content = stream.read(_MAXIMUM_BYTES + 1)
    except OSError as error:
        raise NotFoundError(f"{printable(str(file))} cannot be read: {error.strerror}") from None
    if len(content) > _MAXIMUM_BYTES:
        raise UsageError(f"{printable(str(file))} is too large to be a list of repositories")
    found: dict[Location, None] = {}
    wrong: list[str] = []
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        try:
            text = line.decode().strip()
            if text and not text.startswith("#"):
                found[locate(text, file.parent)] = None
        except UnicodeDecodeError:
            wrong.append(f"line {number}: not UTF-8")
        except (InvalidNameError, NotFoundError, UsageError) as error:
            wrong.append(f"line {number}: {error}")
    if wrong:
        more = f"; and {len(wrong) - 10} more lines" if len(wrong) > 10 else ""
        raise UsageError(f"{printable(str(file))}: {'; '.join(wrong[:10])}{more}", hint="correct the lines named")
    return list(found)


def _fetchable(text: str, scheme: re.Match[str] | None) -> str:
    if scheme is not None and scheme[0][:-3].lower() not in _FETCHABLE:
        raise UsageError(f"repositories are fetched by {', '.join(_FETCHABLE)}, not by {printable(scheme[0])}")
    if not text.lower().startswith("file://"):
        canonical_url(text)
    return text
