"""`python -m knowing_protocol verify FILE [--trust FILE] [--json]`: the verifier for people. Exit 0, 1, 2, 3 or 4.

The only module of the kernel that reads files, prints, and looks at the clock (to show ages beside the statement).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from io import TextIOWrapper
from typing import Any, NoReturn

from knowing_protocol import ed25519
from knowing_protocol.bundle import MAX_BUNDLE_BYTES
from knowing_protocol.ed25519 import Verifier
from knowing_protocol.errors import KnowingError
from knowing_protocol.history import DEFAULT_REF
from knowing_protocol.render import shown, visible
from knowing_protocol.trust import MAX_TRUST_BYTES, Trust, parse_trust
from knowing_protocol.verify import CANNOT_TELL, REJECTED, Report, verify_document


class UnreadableError(KnowingError):
    """A file that cannot be read."""

    code = "not-found"
    exit_code = 4


def read_file(path: str, limit: int) -> bytes:
    """The bytes of a file, at most one more than allowed, so that a gigantic one is refused and not read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read(limit + 1)
    except OSError as error:
        raise UnreadableError(
            f"{visible(path)}: {error.strerror or 'cannot be read'}", hint="check the path and its permissions"
        ) from None


def _print(text: str) -> None:
    """Print a report whatever the terminal can show, and whether or not somebody reads to its end."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        print(text, flush=True)
    except BrokenPipeError:  # whoever reads has seen enough; the exit code still tells
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run(path: str, trust_path: str | None, *, as_json: bool, verifier: Verifier = ed25519.verify) -> int:
    """Verify a file, print the verdict, and give the exit code."""
    try:
        trust: Trust | None = None
        if trust_path is not None:
            trust = parse_trust(read_file(trust_path, MAX_TRUST_BYTES), verifier)
        report = verify_document(read_file(path, MAX_BUNDLE_BYTES), trust, verifier)
    except KnowingError as error:
        # A trust file that cannot be used is the user's mistake, not a verdict on the bundle.
        if as_json:
            print(json.dumps(error.as_json()))
        else:
            hint = f" ({error.hint})" if error.hint else ""
            print(f"error: {error.message}{hint}", file=sys.stderr)
        return error.exit_code if error.exit_code == 4 else 2
    _print(json.dumps(report.as_json(), indent=2) if as_json else text_of(report, int(time.time())))
    return {REJECTED: 3, CANNOT_TELL: 1}.get(report.verdict, 0)


def text_of(report: Report, now: int) -> str:
    """A report for people, with the age of everything that has one."""
    if report.verdict == REJECTED:
        return f"REJECTED  {report.code}\n  {visible(report.reason)}"
    lines = ["VERIFIED" if report.verdict != CANNOT_TELL else f"CANNOT TELL  {report.reason}"]
    lines += (f"  {line}" for line in report.paragraphs)
    lines.append("Not covered:")
    lines += (f"  {line}" for line in report.limits)
    if report.entries:
        lines.append("Entries:")
    lines += (
        f"  - {visible(entry['repository'])}{_branch(entry)} commit {shown(entry['commit'])}, "
        f"indexed {_when(entry['time'], now)}"
        for entry in report.entries
    )
    if report.checkpoints:
        lines.append("Signed by:")
    for checkpoint in report.checkpoints:
        who = f'"{checkpoint.name}", ' if checkpoint.name else ""
        pin = "" if checkpoint.pin == "none" else f"; against the pinned state: {checkpoint.pin}"
        lines.append(
            f"  - {who}node {checkpoint.origin.hex()[:16]}, log of size {checkpoint.size}, "
            f"signed {_when(checkpoint.time, now)}{pin}"
        )
    return "\n".join(lines)


def _branch(entry: dict[str, Any]) -> str:
    """What the commit was indexed as: the ref where that is not the default one, and the branch."""
    ref = "" if entry["ref"] == DEFAULT_REF else f" ref {shown(entry['ref'])}"
    return ref + (f" {shown(entry['branch'])}" if entry["branch"] and entry["branch"] != entry["ref"] else "")


def _when(then: int, now: int) -> str:
    try:
        date = datetime.fromtimestamp(then, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):
        return f"at {then}"
    age = now - then
    if age < 0:
        return f"{date} (in the future of this machine's clock)"
    for unit, seconds in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if age >= seconds:
            count = age // seconds
            return f"{date} ({count} {unit}{'s' if count != 1 else ''} ago)"
    return f"{date} (just now)"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """As usual, but with no way to the terminal for what a file name may hold."""
        super().error(visible(message))


def parser() -> argparse.ArgumentParser:
    """The command line: `verify FILE`, and FILE alone, which is how the single file is called."""
    made = _Parser(
        prog="knowing-verify",
        description="Check a proof bundle, or evidence against a node, offline. "
        "Exit 0 verified, 3 rejected, 1 cannot tell, 2 usage, 4 not found.",
    )
    made.add_argument("file", metavar="FILE", help="the bundle")
    made.add_argument("--trust", metavar="FILE", help="whose signatures count; without it nobody's do")
    made.add_argument("--json", action="store_true", help="print the report as JSON")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["verify"]:
        del words[0]
    options = parser().parse_args(words)
    return run(options.file, options.trust, as_json=options.json)


if __name__ == "__main__":
    sys.exit(main())
