"""`knowing demo`: two nodes with real packages, and proofs about them."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import click

from knowingd.cli import common_options, demo_proofs
from knowingd.cli.demo_run import git, knowing
from knowingd.cli.demo_sync import two_nodes
from knowingd.errors import UsageError


@click.command("demo")
@click.option("-o", "--output", metavar="DIR", help="Keep the files here instead of a temporary directory.")
@common_options
def command(output: str | None, *, as_json: bool, quiet: bool, **_common: object) -> int:
    """Two nodes with real packages: index, ask, sync, edit, sync again; then three proofs, and two forgeries refused.

    The packages come from the package index through pip, as sources, and are not installed. Without a network the demo
    proves on a small sample of its own. The first node serves on a free port of this machine until the demo ends. Each
    proof is checked by a process of its own that is given the bundle and the trust file, and nothing else.
    """
    with tempfile.TemporaryDirectory(prefix="knowing-demo-") as scratch:
        directory = Path(output or scratch).resolve()
        directory.mkdir(parents=True, exist_ok=True)
        say = not (as_json or quiet)
        found, synced = [], []
        alice, bob, sources = directory / "alice", directory / "bob", directory / "packages"
        if sources.exists():
            raise UsageError(f"{directory} has a demo inside already", hint="name another directory with -o")
        if _packages(directory / "archives", sources):
            claims = demo_proofs.PACKAGES
            found = _questions(alice, sources, say=say)
            synced = two_nodes(alice, bob, sources, QUESTIONS[1][0], say=say)
        else:
            if say:
                click.echo("no package index can be reached, so the demo goes on with a small sample of its own")
            claims = demo_proofs.SAMPLE
            demo_proofs.write_sample(sources)
            knowing(alice, "add", *map(str, sorted(sources.iterdir())), say=say)
        steps = demo_proofs.prove_and_forge(alice, directory, claims, say=say)
    if as_json:
        click.echo(json.dumps({"packages": found, "sync": synced, "steps": steps}, ensure_ascii=False))
    return 0


PACKAGES = ("click==8.3.0", "flask==3.1.2", "werkzeug==3.1.3", "jinja2==3.1.6")
QUESTIONS = (
    ("werkzeug.routing.Map.bind", "a method of a library, called by an application framework"),
    ("jinja2.Environment.get_template", "a method that is called on a subclass, in another repository"),
)


def _packages(archives: Path, sources: Path) -> bool:
    """Real packages, each as a git repository of its own with one commit; whether they can be had."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--no-binary", ",".join(one.partition("==")[0] for one in PACKAGES), "--dest", str(archives), *PACKAGES]
    if subprocess.run(command, capture_output=True, check=False).returncode:  # noqa: S603
        return False
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
    return True


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
