"""Packs the kernel into one file that plain `python3 -I` runs: `make_verifier.py dist/knowing-verify.pyz`.

The same sources always give the same bytes, so that anybody can check a verifier they were handed.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

KERNEL = Path(__file__).parent.parent / "protocol" / "knowing_protocol"
# What only makes bundles stays out: the file is for those who check them.
LEFT_OUT = {"prover.py", "recorder.py"}
MAIN = "import sys\n\nfrom knowing_protocol.__main__ import main\n\nsys.exit(main())\n"
EPOCH = (1980, 1, 1, 0, 0, 0)


def make(target: Path) -> None:
    """Write the archive."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as file:
        file.write(b"#!/usr/bin/env -S python3 -I\n")
        with zipfile.ZipFile(file, "w") as archive:
            for source in sorted(KERNEL.glob("*.py")):
                if source.name not in LEFT_OUT:
                    _add(archive, f"knowing_protocol/{source.name}", source.read_bytes())
            _add(archive, "__main__.py", MAIN.encode())
    target.chmod(0o755)


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, EPOCH)
    info.compress_type = zipfile.ZIP_STORED  # the same bytes whatever zlib is here
    info.external_attr = 0o644 << 16
    info.create_system = 3
    archive.writestr(info, data)


if __name__ == "__main__":
    make(Path(sys.argv[1]))
    print(f"{sys.argv[1]}: run it as `python3 -I {sys.argv[1]} BUNDLE --trust TRUST`")
