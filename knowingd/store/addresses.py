"""Spellings that the store compares: addresses of nodes, and patterns of repositories. Pure functions of their text.

Promises: each maps its own results to themselves, so that two spellings of one thing are one row.
Must never: let user info (it may be a password) into an address, or a pattern into a grant that says something else
than what was typed.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

from knowing_protocol.errors import InvalidNameError
from knowing_protocol.urls import canonical_url

from knowingd.errors import UsageError

MAX_ADDRESS: Final = 1024
MAX_PATTERN: Final = 1024
_PRINTABLE: Final = re.compile(r"[!-~]+")
_HOST: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_.-]{0,251}[a-z0-9_])?|\[[0-9a-f:.]{2,45}\]")
_ADDRESS_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._~%!$&'()*+,;=:@-]+)*")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_STARS: Final = re.compile(r"\*{2,}")
# Stand for wildcards while the rest of a pattern is brought to its one spelling; lower-case: folding keeps them.
_PLACEHOLDERS: Final = {"*": "zqxstarxqz", "?": "zqxmarkxqz"}


def node_url(text: str) -> str:
    """The one spelling of a node's address: `http` or `https`, host, port unless it is the usual one, and any path."""
    parts, port = _split(text)
    host = parts.netloc.rpartition("@")[2]
    host = host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]
    host, path = host.lower(), parts.path.rstrip("/")
    if parts.scheme not in _DEFAULT_PORTS or not _HOST.fullmatch(host) or ".." in host:
        raise _bad_address("it is not http:// or https:// and a host")
    if "@" in parts.netloc:
        raise _bad_address("it has a user name or password inside")
    if "?" in text or "#" in text or not _ADDRESS_PATH.fullmatch(path):
        raise _bad_address("it has a query, a fragment, or a path with empty parts or odd characters")
    at = "" if port in (None, _DEFAULT_PORTS[parts.scheme]) else f":{port}"
    return f"{parts.scheme}://{host}{at}{path}"


def host_of(url: str) -> str:
    """The host of an address, for a name."""
    return urlsplit(url).hostname or ""


def repository_pattern(text: str) -> str:
    """The one spelling of a pattern of repository URLs (SPEC 4.5), in whatever spelling of a URL it was written."""
    if not text or len(text) > MAX_PATTERN or not _PRINTABLE.fullmatch(text):
        raise _bad_pattern("it is empty, too long, or has spaces or characters other than ASCII")
    if any(placeholder in text.lower() for placeholder in _PLACEHOLDERS.values()):
        raise _bad_pattern("it has letters inside that are reserved")
    text = _STARS.sub("*", text)
    if "/" not in text and "*" in text:
        # `*`, `*shop`: no host to speak of, so nothing to respell; it can only match or not.
        return text
    given = text
    for wildcard, placeholder in _PLACEHOLDERS.items():
        given = given.replace(wildcard, placeholder)
    try:
        found = canonical_url(given)
    except InvalidNameError as error:
        raise _bad_pattern(error.message) from error
    for wildcard, placeholder in _PLACEHOLDERS.items():
        found = found.replace(placeholder, wildcard)
    return _STARS.sub("*", found)


def _split(text: str) -> tuple[SplitResult, int | None]:
    if len(text) > MAX_ADDRESS or not _PRINTABLE.fullmatch(text):
        raise _bad_address("it is empty, too long, or has spaces or characters other than ASCII")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise _bad_address("its host or port cannot be read") from None
    return parts, port


def _bad_address(why: str) -> UsageError:
    # The address is not quoted: it may have a password inside.
    return UsageError(
        f"that is no address of a node: {why}", code="bad-address", hint="write it as https://host or https://host:port"
    )


def _bad_pattern(why: str) -> UsageError:
    return UsageError(
        f"that is no pattern of repositories: {why}",
        code="bad-pattern",
        hint="write it as 'github.com/acme/*'; `*` also matches `/`",
    )
