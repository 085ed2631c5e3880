"""`knowing demo`: two nodes with real packages, and the proofs on a small sample."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import tarfile
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
from knowingd.cli.demo_run import git, knowing
from knowingd.cli.demo_sync import two_nodes
from knowingd.errors import KnowingError, UsageError


@click.command("demo")
@click.option("-o", "--output", metavar="DIR", help="Keep the files here instead of a temporary directory.")
@common_options
def command(output: str | None, *, as_json: bool, quiet: bool, **_common: object) -> int:
    """Two nodes with real packages: index, ask, sync, edit, sync again; then three proofs, and two forgeries refused.

    The packages come from the package index through pip, as sources, and are not installed. Without a network the demo
    goes on with its sample. The first node serves on a free port of this machine until the demo ends. Each proof is
    checked by a process of its own that is given the bundle and the trust file, and nothing else.
    """
    with tempfile.TemporaryDirectory(prefix="knowing-demo-") as scratch:
        directory = Path(output or scratch).resolve()
        directory.mkdir(parents=True, exist_ok=True)
        say = not (as_json or quiet)
        found, synced = [], []
        sources = _packages(directory, say=say)
        if sources is not None:
            alice, bob = directory / "alice", directory / "bob"
            found = _questions(alice, sources, say=say)
            synced = two_nodes(alice, bob, sources, QUESTIONS[1][0], say=say)
        if say:
            click.echo("\n# proofs, on a small sample")
        steps = _story(directory, say=say)
    if as_json:
        click.echo(json.dumps({"packages": found, "sync": synced, "steps": steps}, ensure_ascii=False))
    return 0


PACKAGES = ("click==8.3.0", "flask==3.1.2", "werkzeug==3.1.3", "jinja2==3.1.6")
QUESTIONS = (
    ("werkzeug.routing.Map.bind", "a method of a library, called by an application framework"),
    ("jinja2.Environment.get_template", "a method that is called on a subclass, in another repository"),
)


def _packages(directory: Path, *, say: bool) -> Path | None:
    """Real packages, each as a git repository of its own with one commit; where they are, if they can be had."""
    archives, sources = directory / "archives", directory / "packages"
    if sources.exists():
        raise UsageError(f"{directory} has a demo inside already", hint="name another directory with -o")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-binary", ",".join(one.partition("==")[0] for one in PACKAGES), "--dest", str(archives), *PACKAGES]
    if subprocess.run(command, capture_output=True, check=False).returncode:  # noqa: S603
        if say:
            click.echo("no package index can be reached, so the demo goes on without real packages")
        return None
    sources.mkdir(exist_ok=True)
    for path in sorted(archives.glob("*.tar.gz")):
        with tarfile.open(path) as archive:
            archive.extractall(sources, filter="data")
        name = path.name.rpartition("-")[0]
        repository = (sources / path.name.removesuffix(".tar.gz")).replace(sources / name)
        git(repository, "init", "--quiet")
        git(repository, "remote", "add", "origin", f"https://github.com/acme/{name}.git")
        git(repository, "add", "--all", "--force")
        git(repository, "commit", "--quiet", "--message", f"{name} as its authors publish it")
    return sources


def _questions(home: Path, sources: Path, *, say: bool) -> list[dict[str, Any]]:
    """Index the packages at one node, and ask across them."""
    knowing(home, "add", *map(str, sorted(sources.iterdir())), say=say)
    found = []
    for symbol, why in QUESTIONS:
        if say:
            click.echo(f"\n# {why}")
            knowing(home, "callers", symbol, "--repo", "flask", say=True)
        else:
            answer = json.loads(knowing(home, "callers", symbol, "--json", say=False))
            found.append({"symbol": symbol, "callers": len(answer["callers"])})
    return found


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
