"""`knowing prove`, `prove-absent`, `prove-callers` and `trust`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
from knowing_protocol.__main__ import read_file
from knowing_protocol.render import visible
from knowing_protocol.trust import MAX_TRUST_BYTES, Trust, parse_trust, trust_to_json
from knowing_protocol.vocabulary import USES, EdgeType

from knowingd.cli import common_options
from knowingd.cli.node import emit, opened, table
from knowingd.cli.query import counted
from knowingd.errors import KnowingError, UsageError
from knowingd.keys import verify
from knowingd.node import Node
from knowingd.proofs import HasCallersError, Made, Proofs

SHOWN = 50
TYPES = [one.value for one in EdgeType]
output_option = click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, metavar="FILE", help="Where the bundle goes."
)
at_option = click.option(
    "--at", metavar="REF|COMMIT", help="An earlier state that is kept, of the repositories that have it."
)
trust_option = click.option(
    "--trust",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The trust file of whoever will check it: the bundle shows that logs have grown from its pins.",
)
repo_option = click.option(
    "--repo", "pattern", metavar="GLOB", help="The repositories whose uses are meant; all if not given."
)


def _proofs(node: Node, trust: Path | None) -> Proofs:
    return Proofs(node, None if trust is None else _read(trust))


def _write(made: Made, output: Path, *, as_json: bool, quiet: bool) -> None:
    """Write a bundle that was checked, and say what it states."""
    from knowing_protocol.verify import REJECTED, verify_bundle

    data = json.dumps(made.bundle, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
    report = verify_bundle(data, None, verify)
    if report.verdict == REJECTED:  # never written: whoever gets it could do nothing with it
        raise UsageError(f"the bundle would not verify: {report.reason}", code=report.code, hint="run `knowing fsck`")
    _put(output, data)
    found = {
        "file": str(output),
        "bytes": len(data),
        "statement": report.statement,
        "not_covered": report.not_covered,
        "repos": made.repositories,
    }
    if as_json:
        emit(found)
    elif not quiet:
        _print(report.paragraphs)
        scope = counted(made.repositories, "repository", "repositories")
        click.echo(f"{output}: {len(data):,} bytes, over {scope}")
        if made.bundle["statement"]["undecided"]:
            names = counted(len(made.bundle["statement"]["undecided"]), "name")
            click.echo(f"it lists {names} that could not be followed, and could be meant: `knowing verify` shows them")
        whose = "this node" if made.own else "the nodes that signed it"
        click.echo(f"check it with `knowing verify {output} --trust FILE`, where FILE is a `trust export` of {whose}")


def _put(output: Path, data: bytes) -> None:
    try:
        output.write_bytes(data)
    except OSError as error:
        raise UsageError(f"{visible(str(output))}: {error.strerror}", hint="check the path") from error


def _print(paragraphs: list[str]) -> None:
    """A statement on the screen; of a long one the beginning, since the bundle has it all."""
    claim, *listed, where = paragraphs
    lines = [claim, *listed[:SHOWN], where]
    if len(listed) > SHOWN:
        lines.insert(-1, f"    … {len(listed) - SHOWN} lines more, which `knowing verify` shows")
    for line in lines:
        click.echo(line)


def _types(edge_type: str) -> tuple[str, ...]:
    return tuple(sorted(one.value for one in USES)) if edge_type == "uses" else (edge_type,)


@click.command("prove")
@click.argument("source", metavar="SOURCE")
@click.argument("target", metavar="TARGET")
@click.option("--type", "edge_type", type=click.Choice(TYPES), default="calls", show_default=True, metavar="TYPE")
@repo_option
@at_option
@trust_option
@output_option
@common_options
def prove(
    *,
    source: str,
    target: str,
    edge_type: str,
    pattern: str | None,
    at: str | None,
    trust: Path | None,
    output: Path,
    home: str | None,
    as_json: bool,
    quiet: bool,
    **_common: object,
) -> None:
    """Prove that SOURCE uses TARGET, in a file that verifies offline, also across repositories."""
    with opened(home) as node:
        made = _proofs(node, trust).relation(source, target, edge_type, pattern, at)
        _write(made, output, as_json=as_json, quiet=quiet)


@click.command("prove-absent")
@click.argument("symbols", nargs=-1, metavar="[SOURCE TARGET]")
@click.option("--callers-of", "symbol", metavar="SYMBOL", help="That nobody in scope uses this.")
@click.option(
    "--type",
    "edge_type",
    type=click.Choice(["uses", *TYPES]),
    metavar="TYPE",
    help="Of a relation: calls if not given. Of --callers-of: uses (calls, references, imports, decorates, extends).",
)
@click.option("--all", "complete", is_flag=True, help="Also state that these are all repositories of this node.")
@repo_option
@at_option
@trust_option
@output_option
@common_options
def prove_absent(
    *,
    symbols: tuple[str, ...],
    symbol: str | None,
    edge_type: str | None,
    complete: bool,
    pattern: str | None,
    at: str | None,
    trust: Path | None,
    output: Path,
    home: str | None,
    as_json: bool,
    quiet: bool,
    **_common: object,
) -> int:
    """Prove that SOURCE does not use TARGET, or that nobody uses SYMBOL.

    A reference that cannot be excluded is listed in the statement, which then says "no resolved call". Fails, and shows
    them, where there are callers.
    """
    if (symbol is None) != (len(symbols) == 2) or (symbol is not None and symbols):
        raise UsageError("give SOURCE and TARGET, or --callers-of SYMBOL", hint="see `knowing prove-absent --help`")
    if complete and symbol is None:
        raise UsageError("--all is for --callers-of", hint="leave it out")
    with opened(home) as node:
        proofs = _proofs(node, trust)
        try:
            if symbol is None:
                made = proofs.no_relation(symbols[0], symbols[1], edge_type or "calls", pattern, at)
            else:
                made = proofs.callers(
                    symbol, _types(edge_type or "uses"), pattern, absent=True, complete=complete, at=at
                )
        except HasCallersError as error:
            return _show_callers(error, as_json=as_json)
        _write(made, output, as_json=as_json, quiet=quiet)
    return 0


def _show_callers(error: HasCallersError, *, as_json: bool) -> int:
    rows: list[dict[str, Any]] = [one._asdict() for one in error.answer.callers]
    if as_json:
        emit({**error.as_json(), "callers": rows})
        return error.exit_code
    click.echo(f"not so: {error.message}", err=True)
    for row in rows[:SHOWN]:
        via = f" via {visible(row['via'])}" if row["via"] else ""
        click.echo(
            f"  {visible(row['repository'])} {visible(row['package'])}:{visible(row['name'])} {row['type']}{via}",
            err=True,
        )
    if len(rows) > SHOWN:
        click.echo(f"  and {len(rows) - SHOWN} more", err=True)
    return error.exit_code


@click.command("prove-callers")
@click.argument("symbol", metavar="SYMBOL")
@click.option(
    "--type", "edge_type", type=click.Choice(["uses", *TYPES]), default="calls", show_default=True, metavar="TYPE"
)
@click.option("--all", "complete", is_flag=True, help="Also state that these are all repositories of this node.")
@repo_option
@at_option
@trust_option
@output_option
@common_options
def prove_callers(
    *,
    symbol: str,
    edge_type: str,
    complete: bool,
    pattern: str | None,
    at: str | None,
    trust: Path | None,
    output: Path,
    home: str | None,
    as_json: bool,
    quiet: bool,
    **_common: object,
) -> None:
    """Prove who uses SYMBOL: the complete list, provably complete."""
    with opened(home) as node:
        made = _proofs(node, trust).callers(symbol, _types(edge_type), pattern, complete=complete, at=at)
        _write(made, output, as_json=as_json, quiet=quiet)


@click.group("trust", context_settings={"help_option_names": ["-h", "--help"]})
def trust() -> None:
    """Whose signatures count, and for which repositories: export, add, list."""


def _trust_file(node: Node) -> Path:
    return node.home.path / "trust.json"


def _read(path: Path) -> Trust:
    data = read_file(str(path), MAX_TRUST_BYTES)
    try:
        return parse_trust(data, verify)
    except KnowingError as error:
        raise UsageError(f"{path} is no trust file: {error.message}", code=error.code) from error


@trust.command("export")
@click.option("--name", default="", help="What to call this node in the file.")
@click.option(
    "--repo", "patterns", multiple=True, metavar="GLOB", help="What it speaks for; its repositories if not given."
)
@click.option("--no-pin", is_flag=True, help="Leave out the state of the log: older bundles count, replays too.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Where it goes; stdout if not given."
)
@common_options
def export(
    *,
    name: str,
    patterns: tuple[str, ...],
    no_pin: bool,
    output: Path | None,
    home: str | None,
    as_json: bool,
    quiet: bool,
    **_common: object,
) -> None:
    """A trust file that names this node, its keys, and the newest state of its log.

    Whoever verifies must get it over a way that they trust: it decides whom they believe. A bundle about the head that
    was made before counts only until the log grows; later bundles show that the log has grown from this state.
    """
    with opened(home) as node:
        one = Proofs(node).trusted(name or f"node {node.keys.origin.hex()[:16]}", patterns, pinned=not no_pin)
    text = json.dumps(trust_to_json([one]), indent=2)
    try:
        parse_trust(text.encode(), verify)
    except KnowingError as error:
        reason = f"nobody could read that trust file: {error.message}"
        raise UsageError(reason, hint="check --name and --repo") from error
    if output is None:
        click.echo(text)
        return
    _put(output, text.encode() + b"\n")
    if as_json:
        emit({"file": str(output), "node": one.first_key.hex(), "repositories": list(one.repositories)})
    elif not quiet:
        what = counted(len(one.repositories), "repository or pattern", "repositories or patterns")
        click.echo(f"{output}: {one.name}, for {what}")


@trust.command("add")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@common_options
def add(*, file: Path, home: str | None, as_json: bool, quiet: bool, **_common: object) -> None:
    """Keep the nodes of a trust file in this node's own, which `knowing trust list` shows."""
    with opened(home) as node:
        path = _trust_file(node)
        known = _read(path).nodes if path.exists() else {}
        known |= _read(file).nodes
        _put(path, json.dumps(trust_to_json(known.values()), indent=2).encode() + b"\n")
    if as_json:
        emit({"file": str(path), "nodes": len(known)})
    elif not quiet:
        click.echo(f"{path}: {counted(len(known), 'node')}")


@trust.command("list")
@common_options
def list_trusted(*, home: str | None, as_json: bool, **_common: object) -> None:
    """The nodes whose signatures count here, and for what."""
    with opened(home) as node:
        path = _trust_file(node)
        nodes = list(_read(path).nodes.items()) if path.exists() else []
    if as_json:
        emit({"file": str(path), "nodes": [{"origin": origin.hex(), **one.as_json()} for origin, one in nodes]})
    elif not nodes:
        click.echo("nobody is trusted yet; `knowing trust add FILE` adds somebody")
    else:
        rows = [("node", "name", "roles", "speaks for")]
        rows += (
            (origin.hex()[:16], visible(one.name), ", ".join(one.roles), visible(", ".join(one.repositories[:3])))
            for origin, one in nodes
        )
        table(rows)
    sys.stdout.flush()
