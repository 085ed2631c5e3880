"""Who may read a repository through others: a list that its origin signs, and that a relay shows nobody.

    knowing-access/v1
    origin <hex>
    repository <canonical URL>
    serial <number>
    reader <hex>          one line for each reader, sorted

A reader stands there as a hash of its id with origin and repository, so that a relay can tell whether whoever asks is
on the list, and not who else is. The list with the highest serial counts. An empty list allows nobody.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from knowing_protocol import encoding
from knowing_protocol.errors import MalformedError
from knowing_protocol.hashing import tagged
from knowing_protocol.history import repository_url

ACCESS: Final = "knowing-access/v1"
MAX_READERS: Final = 800


class Access(NamedTuple):
    """A list of readers."""

    origin: bytes
    repository: str
    serial: int
    readers: tuple[bytes, ...]

    def allows(self, reader: bytes) -> bool:
        """Whether a node, by its id, is on the list."""
        return reader_tag(self.origin, self.repository, reader) in self.readers


def reader_tag(origin: bytes, repository: str, reader: bytes) -> bytes:
    """A node as it stands on the list of a repository."""
    return tagged("reader", origin, repository, reader)


def access_text(access: Access) -> str:
    """The text of the note."""
    lines = [ACCESS, f"origin {access.origin.hex()}", f"repository {access.repository}", f"serial {access.serial}"]
    lines += [f"reader {one.hex()}" for one in sorted(set(access.readers))]
    return "\n".join(lines) + "\n"


def parse_access(text: str) -> Access:
    """The list that a note's text states; only its one spelling is taken."""
    lines = text.split("\n")
    if len(lines) < 5 or len(lines) > MAX_READERS + 5 or lines[0] != ACCESS or lines[-1]:
        raise MalformedError("the note is not an access list", code="access")
    values = []
    for name, line in zip(("origin", "repository", "serial", *["reader"] * (len(lines) - 5)), lines[1:-1], strict=True):
        if not line.startswith(name + " "):
            raise MalformedError(f"the access list has no {name!r} where it belongs", code="access")
        values.append(line[len(name) + 1 :])
    if not (values[2].isascii() and values[2].isdigit() and len(values[2]) <= 15):
        raise MalformedError("the serial of an access list is not a number", code="access")
    found = Access(
        encoding.digest(values[0], "origin"),
        repository_url(values[1], "repository"),
        int(values[2]),
        tuple(encoding.digest(one, "a reader") for one in values[3:]),
    )
    if access_text(found) != text:
        raise MalformedError("the access list is not in its one spelling", code="access")
    return found
