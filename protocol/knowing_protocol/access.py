"""Who may read a repository through others, and through whom: a list that its origin signs.

    knowing-access/v1
    origin <hex>
    repository <canonical URL>
    serial <number>
    reader <hex>          one line for each reader, sorted
    relay <hex>           one line for each node that may pass it on, sorted

Nodes stand there as hashes of their ids with origin and repository, so that a relay can tell whether it may give to
whoever asks, and not who else is on the list. The list with the highest serial counts. An empty one allows nobody.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from knowing_protocol import encoding
from knowing_protocol.errors import MalformedError
from knowing_protocol.hashing import tagged
from knowing_protocol.history import repository_url

ACCESS: Final = "knowing-access/v1"
MAX_NODES: Final = 800


class Access(NamedTuple):
    """A list of readers and relays."""

    origin: bytes
    repository: str
    serial: int
    readers: tuple[bytes, ...]
    relays: tuple[bytes, ...]

    def allows(self, reader: bytes, relay: bytes) -> bool:
        """Whether a node may have the repository from another one, by their ids."""
        return (
            reader_tag(self.origin, self.repository, reader) in self.readers
            and relay_tag(self.origin, self.repository, relay) in self.relays
        )


def reader_tag(origin: bytes, repository: str, reader: bytes) -> bytes:
    """A reader as it stands on the list of a repository."""
    return tagged("reader", origin, repository, reader)


def relay_tag(origin: bytes, repository: str, relay: bytes) -> bytes:
    """A relay as it stands on the list of a repository."""
    return tagged("relay", origin, repository, relay)


def access_text(access: Access) -> str:
    """The text of the note."""
    lines = [ACCESS, f"origin {access.origin.hex()}", f"repository {access.repository}", f"serial {access.serial}"]
    lines += [f"reader {one.hex()}" for one in sorted(set(access.readers))]
    lines += [f"relay {one.hex()}" for one in sorted(set(access.relays))]
    return "\n".join(lines) + "\n"


def parse_access(text: str) -> Access:
    """The list that a note's text states; only its one spelling is taken."""
    lines = text.split("\n")
    if len(lines) < 5 or len(lines) > MAX_NODES + 5 or lines[0] != ACCESS or lines[-1]:
        raise MalformedError("the note is not an access list", code="access")
    values = []
    for name, line in zip(("origin", "repository", "serial"), lines[1:4], strict=True):
        if not line.startswith(name + " "):
            raise MalformedError(f"the access list has no {name!r} where it belongs", code="access")
        values.append(line[len(name) + 1 :])
    if not (values[2].isascii() and values[2].isdigit() and len(values[2]) <= 15):
        raise MalformedError("the serial of an access list is not a number", code="access")
    named: dict[str, list[bytes]] = {"reader": [], "relay": []}
    for line in lines[4:-1]:
        name, _, value = line.partition(" ")
        if name not in named:
            raise MalformedError("an access list has readers and relays, and nothing else", code="access")
        named[name].append(encoding.digest(value, f"a {name}"))
    found = Access(
        encoding.digest(values[0], "origin"),
        repository_url(values[1], "repository"),
        int(values[2]),
        tuple(named["reader"]),
        tuple(named["relay"]),
    )
    if access_text(found) != text:
        raise MalformedError("the access list is not in its one spelling", code="access")
    return found
