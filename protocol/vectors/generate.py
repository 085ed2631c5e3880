"""Writes every vector beside this file; `--check` only compares. The same code always gives the same bytes.

`kernel.json` has names, hashes, maps, logs and notes with their values; `bundles/*.json` are bundles that verify,
`forgeries/*.json` are named after their defect. Each says what a verifier must answer. `wire/*.json` has what travels
between nodes, made and read by the code that serves and pulls.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import kernel
import wire
import wire_notes
import wire_talks
from knowing_protocol.trust import parse_trust
from knowing_protocol.verify import verify_bundle
from negative import NEGATIVE
from positive import DOUBTFUL, POSITIVE, Case

HERE = Path(__file__).parent
FORMAT = "knowing-vector/v1"


def judged(case: Case) -> dict[str, Any]:
    """What the verifier says of a case."""
    return verify_bundle(case.bundle.encode(), parse_trust(case.trust.encode())).as_json()


def vector(name: str, about: str, case: Case, expect: dict[str, Any]) -> str:
    """A vector file."""
    body = {"format": FORMAT, "name": name, "about": about, "trust": case.trust, "bundle": case.bundle}
    return json.dumps(body | {"expect": expect}, indent=1, ensure_ascii=False) + "\n"


def files() -> dict[str, str]:
    """All files by their path here."""
    found = {"kernel.json": json.dumps(kernel.vectors(), indent=1, ensure_ascii=False) + "\n"}
    for make in POSITIVE:
        name = make.__name__.replace("_", "-")
        case = make()
        report = judged(case)
        expected = "cannot-tell" if make in DOUBTFUL else "verified"
        assert report["verdict"] == expected, (name, report)
        found[f"bundles/{name}.json"] = vector(name, make.__doc__ or "", case, report)
    for make, code in NEGATIVE:
        name = make.__name__.replace("_", "-")
        case = make()
        report = judged(case)
        assert (report["verdict"], report["code"]) == ("rejected", code), (name, report)
        about = make.__doc__ or make.__name__.replace("_", " ").capitalize() + "."
        expect = {"verdict": "rejected", "code": code}
        found[f"forgeries/{name}.json"] = vector(name, about, case, expect)
    for body in (*wire.documents(), wire_notes.evidence(), *wire_talks.documents()):
        found[f"wire/{body['name']}.json"] = json.dumps(body, indent=1, ensure_ascii=False) + "\n"
    return found


def main() -> int:
    """Write the files, or compare them."""
    wanted = files()
    existing = {str(path.relative_to(HERE)): path for path in HERE.rglob("*.json")}
    if "--check" in sys.argv[1:]:
        stale = [name for name, text in wanted.items() if name not in existing or existing[name].read_text() != text]
        stale += [name for name in existing if name not in wanted]
        for name in stale:
            print(f"vectors: {name} is not what the code makes; run `make vectors` and look at the difference")
        print(f"vectors: {len(wanted) - len(stale)} of {len(wanted)} files agree")
        return 1 if stale else 0
    for name, path in existing.items():
        if name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        target = HERE / name
        target.parent.mkdir(exist_ok=True)
        target.write_text(text)
    print(f"vectors: wrote {len(wanted)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
