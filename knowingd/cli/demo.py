"""`knowing demo`: the part of the story that exists, on a small sample."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
from knowing_protocol.bundle import seal_of
from knowing_protocol.claims import Question
from knowing_protocol.hashing import external
from knowing_protocol.prover import make_bundle
from knowing_protocol.statement import AllOf
from knowing_protocol.trust import trust_to_json

from knowingd.cli import common_options
from knowingd.errors import KnowingError


@click.command("demo")
@click.option("-o", "--output", metavar="DIR", help="Keep the files here instead of a temporary directory.")
@common_options
def command(output: str | None, *, as_json: bool, quiet: bool, **_common: object) -> int:
    """Two repositories, one signed log, three proofs, and two forgeries refused.

    Each proof is checked by a process of its own that is given the bundle and the trust file, and nothing else.
    """
    with tempfile.TemporaryDirectory(prefix="knowing-demo-") as scratch:
        directory = Path(output) if output else Path(scratch)
        directory.mkdir(parents=True, exist_ok=True)
        steps = _story(directory, say=not (as_json or quiet))
    if as_json:
        click.echo(json.dumps({"steps": steps}, ensure_ascii=False))
    return 0


def _story(directory: Path, *, say: bool) -> list[dict[str, Any]]:
    from knowingd import sample

    node = sample.SampleNode(secrets.token_bytes(32), int(time.time()))
    for repository, records, commit in (
        (sample.LIBRARY, sample.library(), "a" * 40),
        (sample.APPLICATION, sample.application(), "b" * 40),
    ):
        header = node.snapshot(repository, records, commit)
        if say:
            assert header.source is not None
            click.echo(f"indexed   {repository}: {header.edges} edges, graph root {header.source.hex()[:16]}…")
    trust = directory / "trust.json"
    trust.write_text(json.dumps(trust_to_json([node.trusted("demo node", "github.com/acme/*")]), indent=1))

    subjects = node.subjects()
    everything = AllOf(node.origin, 0, "HEAD", "*")
    via = "python://payments.Client().send"
    relation = make_bundle(Question("relation", sample.SEND, ("calls",), sample.REFUND, via), subjects)
    callers = make_bundle(Question("callers", sample.CHARGE, ("calls",)), subjects, all_of=everything)
    nobody = make_bundle(Question("callers", external("python://hashlib.md5"), ("calls",)), subjects, all_of=everything)
    dropped = json.loads(json.dumps(callers))
    dropped["statement"]["callers"].pop()
    shrunk = json.loads(json.dumps(nobody))
    shrunk["statement"]["scope"].pop()
    return [
        _verified(directory, name, title, bundle, trust, expected, say=say)
        for name, title, bundle, expected in (
            ("relation", "a call into another repository, through a type", relation, 0),
            ("callers", "all callers of payments.charge, provably all", callers, 0),
            ("nobody", "nobody calls hashlib.md5, in any repository of this node", nobody, 0),
            ("forgery-caller-dropped", "forgery: one caller dropped from the list", _sealed(dropped), 3),
            ("forgery-scope-shrunk", "forgery: one repository left out of 'all'", _sealed(shrunk), 3),
        )
    ]


def _sealed(bundle: dict[str, Any]) -> dict[str, Any]:
    """A forger seals again; it does not help."""
    return {**bundle, "seal": seal_of(bundle).hex()}


def _verified(
    directory: Path, name: str, title: str, bundle: dict[str, Any], trust: Path, expected: int, *, say: bool
) -> dict[str, Any]:
    """Write a bundle and let the stand-alone verifier judge it, in a process that has nothing else."""
    path = directory / f"{name}.json"
    path.write_text(json.dumps(bundle, separators=(",", ":"), ensure_ascii=False))
    arguments = [sys.executable, "-m", "knowing_protocol", "verify", str(path), "--trust", str(trust)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)  # noqa: S603
    if say:
        click.echo(f"\n{title} ({path.stat().st_size} bytes)")
        click.echo("\n".join(f"  {line}" for line in done.stdout.splitlines()))
    if done.returncode != expected:
        raise KnowingError(f"{name}: the verifier said {done.returncode} where {expected} was due: {done.stderr}")
    report = subprocess.run([*arguments, "--json"], capture_output=True, text=True, check=False)  # noqa: S603
    verdict = json.loads(report.stdout)
    return {"name": name, "verdict": verdict["verdict"], "code": verdict["code"], "statement": verdict["statement"]}
