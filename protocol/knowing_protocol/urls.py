"""Canonical repository URLs: one spelling for every way to write where a repository lives.

Promises: `canonical_url` is a pure function of its text, its result is printable ASCII of the form `host/path`,
`host:port/path` or `local/name`, and it maps its own results to themselves. Everything else is refused with
`InvalidNameError`. Must never: look at the machine, follow a redirect, keep user info (it may be a password, so no
message quotes the text either), or let a file system path become part of a signed name.

What is decided here, because the texts on URLs leave it open:
- A host with other than ASCII characters is refused: two IDNA editions disagree on some names, the `xn--` form is one.
- Escapes of unreserved characters are decoded and characters that no URL may hold are escaped, so `%41` is `A` and
  `é` is `%C3%A9`; the delimiters of RFC 3986 (`+`, `@`, `%2B`, …) stay as written, they may mean different things.
- One `.git` is removed; a path that still ends in `.git` then is refused, else the second call would change it again.
- Without a scheme, `host:123/x` has a port (as canonical URLs do), `git@host:123/x` and `host:x/y` are scp's syntax.
- `a/b` has the host `a`: company hosts often have no dot. The host `local` is reserved for names without a remote.
"""

from __future__ import annotations

import ipaddress
import re
import string
from typing import Final

from knowing_protocol.errors import InvalidNameError

MAXIMUM_BYTES: Final = 4096
LOCAL_HOST: Final = "local"

CASE_IGNORING_HOSTS: Final = frozenset({"github.com", "gitlab.com", "bitbucket.org", "codeberg.org"})
"""The public hosts that serve one repository under every casing of its path. Frozen: an addition is a new protocol."""

DEFAULT_PORTS: Final = {
    "https": 443,
    "git+https": 443,
    "http": 80,
    "git+http": 80,
    "ssh": 22,
    "git+ssh": 22,
    "ssh+git": 22,
    "git": 9418,
}

# Other names of the same service; the ssh ones exist to get through firewalls on port 443.
_HOST_ALIASES: Final = {
    **{f"{prefix}.{host}": host for host in CASE_IGNORING_HOSTS for prefix in ("www", "ssh")},
    "altssh.gitlab.com": "gitlab.com",
    "altssh.bitbucket.org": "bitbucket.org",
}

_UNRESERVED: Final = frozenset(string.ascii_letters + string.digits + "-._~")
_PATH_CHARACTERS: Final = _UNRESERVED | frozenset("!$&'()*+,;=:@")
_LOCAL_CHARACTERS: Final = _UNRESERVED

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f-\x9f\\]")
_ESCAPE_OR_CHARACTER: Final = re.compile(r"%[0-9A-Fa-f]{2}|.", re.DOTALL)
_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST: Final = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")
_PORT: Final = re.compile(r"0*([1-9][0-9]{0,4})")
# A drive letter is told from a host of one letter by what follows: a port does not look like a directory.
_MACHINE_PATH: Final = re.compile(r"(?i:[/\\~]|\.{1,2}(?:[/\\]|\Z)|(?:git\+)?file:[/\\]|[a-z]:(?![0-9]+/))")

_NAME_HINT: Final = "give the repository a name of its own; a path of this machine means nothing to others"
_URL_HINT: Final = "write it as https://host/path, ssh://host/path or git@host:path"


def canonical_url(text: str) -> str:
    """The one spelling of a repository URL, or InvalidNameError."""
    _refuse_oversized_or_undecodable(text)
    if _MACHINE_PATH.match(text):
        raise InvalidNameError("a file system path is not a repository URL", hint=_NAME_HINT)
    if _FORBIDDEN.search(text):
        raise InvalidNameError("a repository URL holds no spaces, backslashes or control characters", hint=_URL_HINT)
    text = re.split(r"[?#]", text, maxsplit=1)[0]
    if text.startswith(LOCAL_HOST + "/"):
        return _local_url(text.removeprefix(LOCAL_HOST))
    host_text, port, path = _split_url(text)
    host = _canonical_host(host_text)
    fold = host in CASE_IGNORING_HOSTS
    if fold and port in DEFAULT_PORTS.values():
        port = None  # these hosts serve the same repositories on all of them
    segments = _canonical_segments(path, literal=_PATH_CHARACTERS, decoded=_UNRESERVED, fold=fold)
    segments = _without_git_suffix(segments)
    if not segments:
        raise InvalidNameError("a repository URL needs a path after its host", hint="a host alone is no repository")
    authority = host if port is None else f"{host}:{port}"
    return _bounded_result(f"{authority}/{'/'.join(segments)}")


def is_canonical_url(text: str) -> bool:
    """Whether a text is already the one spelling of a repository URL."""
    try:
        return canonical_url(text) == text
    except InvalidNameError:
        return False


def local_name(name: str) -> str:
    """The canonical URL of a repository without a remote, from the name that its user gave it, taken literally."""
    _refuse_oversized_or_undecodable(name)
    if _MACHINE_PATH.match(name):
        raise InvalidNameError("a repository name is not a file system path", hint=_NAME_HINT)
    return _local_url(name.replace("%", "%25").replace(" ", "%20"))


def matches(pattern: str, url: str) -> bool:
    """Whether a GLOB matches a whole URL: `*` is any text, also across `/`; `?` is any one character.

    Runs the pattern as a set of positions, the bits of one integer, so that no pattern can make it slow.
    """
    _refuse_oversized_or_undecodable(pattern)
    _refuse_oversized_or_undecodable(url)
    literals: dict[str, int] = {}
    any_character = 0  # the positions that accept every character
    stars = 0  # the positions that may stay where they are
    bit = 1
    for character in pattern:
        if character == "*":
            stars |= bit
            continue
        if character == "?":
            any_character |= bit
        else:
            literals[character] = literals.get(character, 0) | bit
        bit <<= 1
    positions = 1
    for character in url:
        accepting = literals.get(character, 0) | any_character
        positions = (positions & stars) | ((positions & accepting) << 1)
        if not positions:
            return False
    return bool(positions & bit)


def _refuse_oversized_or_undecodable(text: str) -> None:
    try:
        size = len(text) if len(text) > MAXIMUM_BYTES else len(text.encode())
    except UnicodeEncodeError:
        raise InvalidNameError("a name holds only valid Unicode, no lone surrogates") from None
    if size > MAXIMUM_BYTES:
        raise InvalidNameError(f"a name has at most {MAXIMUM_BYTES} bytes of UTF-8")


def _bounded_result(url: str) -> str:
    # Escaping can triple a text; what is returned must be accepted when it comes back.
    if len(url) > MAXIMUM_BYTES:
        raise InvalidNameError(f"a canonical URL has at most {MAXIMUM_BYTES} bytes")
    return url


def _split_url(text: str) -> tuple[str, int | None, str]:
    """Host as written, port unless it is the scheme's own, and path; user info is dropped."""
    scheme = _SCHEME.match(text)
    if scheme is None:
        return _split_without_scheme(text)
    default_port = DEFAULT_PORTS.get(scheme[1].lower())
    if default_port is None:
        raise InvalidNameError("the URL has a scheme that git repositories do not use", hint=_URL_HINT)
    authority, _, path = text[scheme.end() :].partition("/")
    host, port_text = _split_port(authority.rpartition("@")[2])
    port = _parsed_port(port_text) if port_text else None
    return host, None if port == default_port else port, path


def _split_without_scheme(text: str) -> tuple[str, int | None, str]:
    authority, _, path = text.partition("/")
    user, at, host_and_more = authority.partition("@")
    if at and ":" in user:
        # Either a password or scp's syntax with an unusual path: guessing could publish a secret.
        raise InvalidNameError("user info with a colon needs a scheme before it", hint=_URL_HINT)
    host, more = _split_port(host_and_more if at else authority)
    if more is None:
        return host, None, path
    if not at and more.isascii() and more.isdigit():
        return host, _parsed_port(more), path
    if host.lower() in DEFAULT_PORTS and not at:
        raise InvalidNameError("the scheme of the URL is not followed by ://", hint=_URL_HINT)
    return host, None, f"{more}/{path}"


def _split_port(authority: str) -> tuple[str, str | None]:
    """The host and what follows its colon, None without a colon; brackets protect the colons of IPv6."""
    if authority.startswith("["):
        address, bracket, rest = authority.partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise InvalidNameError("the brackets of an IPv6 address do not close", hint=_URL_HINT)
        return address + bracket, rest[1:] if rest else None
    host, colon, rest = authority.partition(":")
    return host, rest if colon else None


def _parsed_port(text: str) -> int:
    match = _PORT.fullmatch(text)
    if match is None or int(match[1]) > 65535:
        raise InvalidNameError("a port is a number from 1 to 65535", hint=_URL_HINT)
    return int(match[1])


def _canonical_host(text: str) -> str:
    if text.startswith("["):
        return _canonical_ipv6(text[1:-1])
    if not text.isascii():
        raise InvalidNameError("the host of a repository URL is ASCII", hint="write the host in its xn-- form")
    host = text.lower().removesuffix(".")
    if _HOST.fullmatch(host) is None:
        raise InvalidNameError("the repository URL has no valid host", hint=_URL_HINT)
    if host == LOCAL_HOST:
        raise InvalidNameError("the host name `local` is reserved for repositories without a remote")
    return _HOST_ALIASES.get(host, host)


def _canonical_ipv6(text: str) -> str:
    """RFC 5952, always in hexadecimal: how `ipaddress` prints embedded IPv4 depends on the Python version."""
    try:
        if "%" in text or "/" in text:
            raise ValueError
        value = int(ipaddress.IPv6Address(text))
    except ValueError:
        raise InvalidNameError("the brackets hold no IPv6 address", hint=_URL_HINT) from None
    groups = [f"{value >> shift & 0xFFFF:x}" for shift in range(112, -1, -16)]
    zero_runs = re.finditer(r"(?:(?<=:)|\A)0(?::0)+(?=:|\Z)", ":".join(groups))
    longest = max(zero_runs, key=lambda run: run.end() - run.start(), default=None)
    if longest is None:
        return f"[{':'.join(groups)}]"
    before, after = longest.string[: longest.start()], longest.string[longest.end() :]
    return f"[{before.removesuffix(':')}::{after.removeprefix(':')}]"


def _local_url(path: str) -> str:
    if _FORBIDDEN.search(path):
        raise InvalidNameError("a repository name holds no backslashes or control characters", hint=_NAME_HINT)
    segments = _canonical_segments(path, literal=_LOCAL_CHARACTERS, decoded=_LOCAL_CHARACTERS, fold=False)
    if not segments:
        raise InvalidNameError("a repository name is not empty", hint="choose a short, stable name")
    return _bounded_result("/".join((LOCAL_HOST, *segments)))


def _canonical_segments(path: str, *, literal: frozenset[str], decoded: frozenset[str], fold: bool) -> list[str]:
    """The segments of a path, respelled; `literal` characters stay, escapes of `decoded` ones are undone."""

    def respell(match: re.Match[str]) -> str:
        written = match[0]
        if written == "%":
            raise InvalidNameError("a percent sign in a path is followed by two hexadecimal digits")
        if len(written) == 1:
            character, stays = written, written in literal
        else:
            character = chr(int(written[1:], 16))
            stays = character in decoded
            if character.isascii() and character != " " and _FORBIDDEN.match(character):
                raise InvalidNameError("a path holds no escaped backslashes or control characters")
        if stays:
            return character.lower() if fold else character
        if len(written) == 1:
            return "".join(f"%{byte:02X}" for byte in written.encode())
        return written.upper()

    segments = [_ESCAPE_OR_CHARACTER.sub(respell, raw) for raw in path.split("/")]
    if ".." in segments:
        raise InvalidNameError("a path does not go upwards (`..`)", hint="write the path that is meant")
    return [segment for segment in segments if segment not in ("", ".")]


def _without_git_suffix(segments: list[str]) -> list[str]:
    if not segments or not segments[-1].lower().endswith(".git"):
        return segments
    *parents, last = segments
    shortened = [*parents, last[:-4]] if len(last) > 4 else parents
    if shortened and (shortened[-1] in (".", "..") or shortened[-1].lower().endswith(".git")):
        raise InvalidNameError(
            "what remains of the path without its .git is no repository name", hint="a name ends in .git once"
        )
    return shortened
