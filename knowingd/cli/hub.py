"""`--hub URL`: the same question, asked of a node elsewhere with a token.

What comes back is the document that this node would have made, or the refusal that it would have given; everything else
that goes wrong is the hub's or the network's, and exits 5. A hub is not believed to be well behaved: its answers are
bounded, and what is shown of them is made visible like anything else from outside.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

import click

from knowingd.errors import KnowingError, NotFoundError, PeerError, UsageError

TOKEN: Final = "KNOWING_TOKEN"  # noqa: S105 - the name of a variable
TIMEOUT: Final = 45.0
"""Longer than a node lets a question take, so that it can say so itself."""
_MAX_TOKEN_FILE: Final = 4096
_MAX_TEXT: Final = 10_000

Document = dict[str, Any]


class Elsewhere(NamedTuple):
    """Which node is asked: none if the address is empty, and then the local one is."""

    address: str
    token_file: Path | None

    def __bool__(self) -> bool:
        return bool(self.address)


class RefusedError(UsageError):
    """A question that makes no sense as it was asked, in the words of the hub."""

    def __init__(self, message: str, code: str, hint: str, choices: list[Any] | None) -> None:
        super().__init__(message, code=code, hint=hint)
        self.choices = choices

    def as_json(self) -> dict[str, Any]:
        """The error, with its choices if it has some."""
        found: dict[str, Any] = super().as_json()
        if self.choices is not None:
            found["error"]["choices"] = self.choices
        return found


def hub_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that ask another node; the command gets them as `elsewhere`."""

    @wraps(command)
    def with_hub(*arguments: Any, hub: str | None, token_file: Path | None, **options: Any) -> Any:
        return command(*arguments, elsewhere=Elsewhere((hub or "").strip(), token_file), **options)

    for option in (
        click.option(
            "--token-file",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help=f"Where the token for --hub stands; else the environment's {TOKEN}.",
        ),
        click.option(
            "--hub",
            metavar="URL",
            envvar="KNOWING_HUB",
            help="Ask this node instead of the local one; #FINGERPRINT behind it pins its certificate.",
        ),
    ):
        with_hub = option(with_hub)
    return with_hub


def ask(elsewhere: Elsewhere, name: str, parameters: Mapping[str, object]) -> Document:
    """The answer of a hub; parameters that are None are not sent."""
    from knowingd.cli.hubclient import HubClient
    from knowingd.store.addresses import node_url
    from knowingd.sync.tls import parse_fingerprint
    from knowingd.sync.tokens import parse_token

    address, _, pin = elsewhere.address.partition("#")
    url = node_url(address)
    token = parse_token(_token(elsewhere.token_file)).text
    if url.startswith("http:") and urlsplit(url).hostname not in ("localhost", "127.0.0.1", "::1"):
        click.echo("warning: the token goes over the network in the clear; https:// would hide it", err=True)
    given = {key: _written(value) for key, value in parameters.items() if value is not None}
    client = HubClient(url, b"", None, parse_fingerprint(pin) if pin else None, TIMEOUT)
    try:
        status, data = client.fetch(f"/v1/{name}?{urlencode(given)}", token)
    finally:
        client.close()
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise _strange(url, status)
    if status != 200:
        raise _refusal(url, status, found)
    return found


@contextmanager
def believed(elsewhere: Elsewhere) -> Iterator[None]:
    """Around whatever shows an answer: a hub whose answers have another shape is no hub."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        if not elsewhere:
            raise
        raise _strange(elsewhere.address.partition("#")[0], 200) from error


def _token(file: Path | None) -> str:
    if file is None:
        found = os.environ.get(TOKEN, "")
    else:
        try:
            with file.open("rb") as stream:
                found = stream.read(_MAX_TOKEN_FILE).decode("ascii", "replace")
        except OSError as error:
            raise UsageError(f"{file}: {error.strerror}", code="token-missing", hint="check the path") from error
    if not found.strip():
        raise PeerError(
            "a hub answers only to a token",
            code="token-missing",
            hint=f"put the one that you were given into {TOKEN}, or name its file with --token-file",
        )
    return found.strip()


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _strange(url: str, status: int) -> PeerError:
    return PeerError(f"{url} does not answer like a knowing node (HTTP status {status})", code="not-a-node")


def _refusal(url: str, status: int, found: Document) -> KnowingError:
    """A refusal: of the question, then as it would be here, or of whoever asks, then exit 5."""
    told = found.get("error")
    if not isinstance(told, dict):
        return _strange(url, status)
    code, message, hint = (_plain(told.get(name)) for name in ("code", "message", "hint"))
    if status == 400:
        choices = told.get("choices")
        return RefusedError(message, code or "usage", hint, choices if isinstance(choices, list) else None)
    if status == 404 and code == NotFoundError.code:
        return NotFoundError(message, hint=hint)
    return PeerError(f"{url}: {message}", code=code or "refused", hint=hint)


def _plain(text: object) -> str:
    """A text of a stranger, with lines and without anything else that moves a cursor."""
    return "".join(one for one in str(text or "")[:_MAX_TEXT] if one.isprintable() or one == "\n")
