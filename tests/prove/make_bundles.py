"""Makes the folder of bundles that a release leaves behind: `python tests/prove/make_bundles.py NAME`.

Keys and times are new in every run, so that a folder is made once and then only checked; nothing here replaces one.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "bundles"
sys.path[:0] = [str(Path(__file__).parents[1])]

from knowing_protocol.evidence import FORK, evidence_document  # noqa: E402
from knowing_protocol.trust import Trust, trust_to_json  # noqa: E402
from knowing_protocol.verify import verify_document  # noqa: E402
from support.cluster import Machine  # noqa: E402

from knowingd import keys  # noqa: E402
from knowingd.cli.demo_run import git  # noqa: E402
from knowingd.proofs import Proofs  # noqa: E402

SAMPLES = {
    "lib": {
        "pyproject.toml": '[project]\nname = "lib"\n[tool.setuptools]\npackages = ["lib"]\n',
        "lib/__init__.py": "from ._core import Client, make, unused\n",
        "lib/_core.py": "class Client:\n    def send(self):\n        pass\n\n\ndef make() -> Client:\n"
        "    return Client()\n\n\ndef unused():\n    pass\n\n\ndef closing():\n    pass\n",
    },
    "between": {
        "pyproject.toml": '[project]\nname = "between"\n[tool.setuptools]\npackages = ["between"]\n',
        "between/__init__.py": "from lib import make as build\n",
    },
    "application": {
        "app.py": "import hashlib\nimport between\nimport lib\n\n\ndef go():\n    lib.make().send()\n"
        "    between.build()\n\n\ndef check(x):\n    return hashlib.md5(x)\n\n\ndef end(thing):\n    thing.closing()\n",
    },
}


def commit(repository: Path, path: str, text: str) -> None:
    (repository / path).write_text(text)
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "a change")


def knowing(home: Path, *words: str) -> None:
    subprocess.run([sys.executable, "-m", "knowingd.cli", *words, "--home", str(home), "-q"], check=True)


def make(root: Path) -> tuple[dict[str, Any], Trust]:
    """One bundle of each kind, and whom to believe for them."""
    for name, files in SAMPLES.items():
        repository = root / name
        for path in files:
            (repository / path).parent.mkdir(parents=True, exist_ok=True)
        git(root, "init", "--quiet", name)
        git(repository, "remote", "add", "origin", f"https://github.com/acme/{name}.git")
        for path, text in files.items():
            commit(repository, path, text)
    home, fork = root / "home", root / "fork"
    knowing(home, "add", *(str(root / name) for name in SAMPLES))
    shutil.copytree(home, fork)  # a clone of a node, keys included, is what makes two histories
    commit(root / "application", "app.py", SAMPLES["application"]["app.py"].replace("md5", "sha256"))
    knowing(home, "index", "application")
    commit(root / "application", "app.py", "")
    knowing(fork, "index", "application")
    machine, other = Machine(home), Machine(fork)
    proofs = Proofs(machine.node)
    before = next(header.commit for header in map(machine.node.store.header, range(4))
                  if header.repository.endswith("/application"))  # fmt: skip
    bundles: dict[str, Any] = {
        "relation": proofs.relation("app:go", "lib.Client.send", "calls"),
        "relation-through-a-third-repository": proofs.relation("app:go", "lib.make", "calls"),
        "no-relation": proofs.no_relation("app:check", "lib.make", "calls"),
        "absence": proofs.callers("lib.unused", ("calls",), absent=True),
        "absence-with-undecided": proofs.callers("lib._core.closing", ("calls",), absent=True),
        "absence-of-a-name-from-outside": proofs.callers("python://hashlib.md5", ("calls", "references"), absent=True),
        "callers": proofs.callers("lib.make", ("calls",)),
        "callers-all-of": proofs.callers("lib.make", ("calls", "imports"), complete=True),
        "at-commits": proofs.relation("app:check", "python://hashlib.md5", "calls", at=before),
    }
    found = {name: made.bundle for name, made in bundles.items()}
    notes = (machine.node.store.checkpoint(), other.node.store.checkpoint())
    found["evidence"] = json.loads(evidence_document(FORK, machine.federation.first_key, [], notes, {}))
    trusted = proofs.trusted("sample node", ["github.com/acme/*"])
    machine.close()
    other.close()
    return found, Trust({machine.federation.origin: trusted})


def main() -> None:
    folder = FOLDER / sys.argv[1]
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        bundles, trust = make(Path(scratch))
    statements = {}
    for name, bundle in bundles.items():
        data = json.dumps(bundle, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
        (folder / f"{name}.json").write_bytes(data)
        report = verify_document(data, trust, keys.verify)
        statements[name] = {"verdict": report.verdict, "statement": report.statement, "not_covered": report.not_covered}
    (folder / "TRUST.json").write_text(json.dumps(trust_to_json(trust.nodes.values()), indent=2) + "\n")
    (folder / "STATEMENTS.json").write_text(json.dumps(statements, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
