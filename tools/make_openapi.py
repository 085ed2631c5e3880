"""Writes docs/openapi.json from the table of endpoints; with `--check`, only says whether it is up to date."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from knowingd.http.openapi import document

TARGET = Path(__file__).parent.parent / "docs" / "openapi.json"


def text() -> str:
    """The document as it stands in the file."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Write it, or check it."""
    if "--check" in sys.argv[1:]:
        if TARGET.exists() and TARGET.read_text("utf-8") == text():
            return 0
        print(f"{TARGET} is not up to date; run `make openapi`", file=sys.stderr)
        return 1
    TARGET.write_text(text(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
