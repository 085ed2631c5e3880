"""The demo's proofs: made at one node, checked by a process that gets only the files; then forged, and refused."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
from knowing_protocol.bundle import seal_of

from knowingd.cli.demo_run import git, knowing
from knowingd.errors import KnowingError

_WIDTH: Final = 118
_SHOWN: Final = 3


class Claim(NamedTuple):
    """What is proven, and by which command."""

    name: str
    title: str
    command: tuple[str, ...]


PACKAGES: Final = (
    Claim(
        "relation",
        "flask calls a method of werkzeug, on a value whose type only werkzeug knows",
        ("prove", "flask.Flask.create_url_adapter", "werkzeug.routing.Map.bind"),
    ),
    Claim(
        "callers",
        "everybody who calls click.format_filename, provably all, with what was just added to flask",
        ("prove-callers", "click.format_filename", "--all"),
    ),
    Claim(
        "nobody",
        "nobody uses hashlib.md5, in any repository of this node",
        ("prove-absent", "--callers-of", "python://hashlib.md5", "--all"),
    ),
)
SAMPLE: Final = (
    Claim(
        "relation",
        "a call into another repository, through a type",
        ("prove", "shop:refund", "payments.Client.send"),
    ),
    Claim(
        "callers", "everybody who calls payments.charge, provably all", ("prove-callers", "payments.charge", "--all")
    ),
    Claim(
        "nobody",
        "nobody uses hashlib.md5, in any repository of this node",
        ("prove-absent", "--callers-of", "python://hashlib.md5", "--all"),
    ),
)
_SAMPLE_FILES: Final = {
    "payments/pyproject.toml": '[project]\nname = "payments"\n[tool.setuptools]\npackages = ["payments"]\n',
    "payments/payments/__init__.py": "from ._api import Client, charge\n",
    "payments/payments/_api.py": "def charge(amount):\n    return amount\n\n\nclass Client:\n"
    "    def send(self, amount):\n        return charge(amount)\n",
    "shop/shop.py": "import payments\n\n\ndef checkout(cart):\n    payments.charge(sum(cart))\n    refund(0)\n\n\n"
    "def refund(amount):\n    payments.Client().send(-amount)\n",
}


def write_sample(sources: Path) -> None:
    """A library and an application that uses it, for where no real package can be had."""
    for path, text in _SAMPLE_FILES.items():
        (sources / path).parent.mkdir(parents=True, exist_ok=True)
        (sources / path).write_text(text, "utf-8")
    for repository in sorted(sources.iterdir()):
        git(repository, "init", "--quiet")
        git(repository, "remote", "add", "origin", f"https://github.com/acme/{repository.name}.git")
        git(repository, "add", "--all")
        git(repository, "commit", "--quiet", "--message", "a sample")


def prove_and_forge(home: Path, directory: Path, claims: tuple[Claim, ...], *, say: bool) -> list[dict[str, Any]]:
    """Make the bundles, let them be checked, forge two of them, and see both refused."""
    if say:
        click.echo("\n# proofs: alice hands over three files, and once, over a way that is trusted, who she is")
    trust = directory / "trust.json"
    knowing(home, "trust", "export", "--name", "alice", "-o", str(trust), say=say)
    steps = []
    for claim in claims:
        path = directory / f"{claim.name}.json"
        if say:
            click.echo(f"\n# {claim.title}")
        knowing(home, *claim.command, "-o", str(path), "-q", say=say)
        steps.append(_verified(path, trust, 0, say=say))
    for name, source, part, title in (
        ("forgery-caller-dropped", "callers", "callers", "one caller dropped from the list, and sealed again"),
        ("forgery-scope-shrunk", "nobody", "scope", "one repository left out of 'all', and sealed again"),
    ):
        bundle = json.loads((directory / f"{source}.json").read_bytes())
        bundle["statement"][part].pop()
        path = directory / f"{name}.json"
        path.write_text(json.dumps({**bundle, "seal": seal_of(bundle).hex()}, ensure_ascii=False), "utf-8")
        if say:
            click.echo(f"\n# forgery: {title}")
        steps.append(_verified(path, trust, 3, say=say))
    return steps


def _verified(path: Path, trust: Path, expected: int, *, say: bool) -> dict[str, Any]:
    """Let the verifier judge a file, in a process that has nothing else."""
    words = ["-m", "knowing_protocol", "verify", path.name, "--trust", trust.name]
    if say:
        click.echo(f"anybody$ python3 -I {' '.join(words)}    # {path.stat().st_size:,} bytes")
    done = subprocess.run(  # noqa: S603 - this very interpreter
        [sys.executable, "-I", *words, *([] if say else ["--json"])],
        cwd=path.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != expected:
        said = (done.stdout + done.stderr).strip()
        raise KnowingError(f"{path.stem}: the verifier said {done.returncode} where {expected} was due: {said}")
    if say:
        click.echo("\n".join(_shortened(done.stdout.splitlines())))
        return {}
    report = json.loads(done.stdout)
    return {"name": path.stem, "verdict": report["verdict"], "code": report["code"], "statement": report["statement"]}


def _shortened(lines: list[str]) -> list[str]:
    """A report for a screen: folded, and of every list the first and the last lines."""
    found: list[str] = []
    for bullet, group in groupby(lines, lambda line: line[:4] if line[:4] in ("  - ", "    ") else None):
        listed = list(group)
        if bullet is not None and len(listed) > _SHOWN:
            listed[_SHOWN - 1 : -1] = [f"{bullet}… and {len(listed) - _SHOWN} more"]
        found += listed
    return [
        part
        for line in found
        for part in textwrap.wrap(
            line, _WIDTH, subsequent_indent=" " * (len(line) - len(line.lstrip(" -")) + 2), break_on_hyphens=False
        )
        or [""]
    ]
