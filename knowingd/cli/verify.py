"""`knowing verify`: the kernel's verifier, with the faster signature check."""

from __future__ import annotations

import click
from knowing_protocol.__main__ import run

from knowingd.cli import common_options


@click.command("verify")
@click.argument("file", metavar="FILE")
@click.option("--trust", metavar="FILE", help="Whose signatures count; without it nobody's do.")
@common_options
def command(file: str, trust: str | None, *, as_json: bool, **_common: object) -> int:
    """Check a proof bundle offline, with no database and no network.

    Says what the bundle states, in a sentence made of verified fields only, what it does not cover, which commits it
    speaks of and who signed. Exit 0 verified, 3 rejected, 1 cannot tell (no trust file), 4 no such file.
    """
    from knowingd.keys import verify

    return run(file, trust, as_json=as_json, verifier=verify)
