"""`knowing key`: which keys the node has, and how one follows another."""

from __future__ import annotations

from pathlib import Path

import click
from knowing_protocol.history import node_name
from knowing_protocol.note import format_verifier_key

from knowingd.cli import common_options
from knowingd.cli.node import emit, opened, table


@click.group("key")
def key() -> None:
    """The node's keys."""


@key.command("show")
@common_options
def show(*, home: str | None, as_json: bool, **_common: object) -> None:
    """The node's id, its first key (which it is named after), all later ones, and the key that signs now."""
    with opened(home) as node:
        chain = node.key_chain
        found = {
            "node": node.keys.origin.hex(),
            "first_key": node.keys.first_key.hex(),
            "current_key": chain.current.hex(),
            "verifier_key": format_verifier_key(node_name(node.keys.origin), chain.current),
        }
        every = [one.hex() for one in chain.keys]
    if as_json:
        emit({**found, "keys": every})
    else:
        table([*found.items(), *((f"key {number}", text) for number, text in enumerate(every, 1) if len(every) > 1)])


@key.command("rotate")
@common_options
def rotate(*, home: str | None, as_json: bool, quiet: bool, **_common: object) -> None:
    """Make a new key and sign with it from now on.

    The old and the new key sign a note that says so; peers and verifiers follow it. The old key signs nothing more.
    """
    with opened(home) as node:
        new = node.rotate_key()
    if as_json:
        emit({"current_key": new.hex()})
    elif not quiet:
        click.echo(f"the node signs with {new.hex()} from now on; back it up with `knowing backup FILE --with-key`")


@key.command("revoke")
@click.argument("prefix", metavar="KEY")
@click.option("--size", type=click.IntRange(0), help="The last size of the log that the key may have signed.")
@common_options
def revoke(prefix: str, *, size: int | None, home: str | None, as_json: bool, quiet: bool, **_common: object) -> None:
    """Declare void what a former key signed from now on, or beyond --size.

    KEY is a key in hex, or its beginning. For a stolen key: `knowing key rotate`, then `knowing key revoke OLD`.
    """
    with opened(home) as node:
        found = node.revoke_key(prefix, size)
    if as_json:
        emit({"revoked": found.hex()})
    elif not quiet:
        click.echo(f"the key {found.hex()[:16]} is revoked")


@key.command("import")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@common_options
def import_(file: Path, *, home: str | None, as_json: bool, quiet: bool, **_common: object) -> None:
    """Take a key from FILE (32 bytes in hex, readable by you alone).

    A node that has signed nothing yet takes it as its identity; any other takes back one of its own keys.
    """
    with opened(home) as node:
        found = node.import_key(file)
    if as_json:
        emit({"key": found.hex()})
    elif not quiet:
        click.echo(f"the key {found.hex()[:16]} is here")
