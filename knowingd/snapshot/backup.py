"""Backups: one tar file with consistent copies of all databases, and the keys only if they are asked for.

A restored node may be older than what it signed since. It therefore signs nothing until it has recovered its newest log
or begun a new epoch; otherwise it would give an index a second time and look like a liar.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from knowing_protocol.history import origin_id

from knowingd.config import Home
from knowingd.errors import StoreError, UsageError
from knowingd.keyfile import KeyRing
from knowingd.store.database import Database
from knowingd.store.nodestore import NodeStore, RosterRow
from knowingd.store.working import is_working

FORMAT = "knowing-backup/v1"
_MANIFEST = "manifest.json"
MAX_MANIFEST = 1 << 20


def write_backup(
    target: Path,
    home: Home,
    store: NodeStore,
    keys: KeyRing,
    databases: Iterable[tuple[RosterRow, Database]],
    *,
    with_key: bool,
) -> dict[str, Any]:
    """Write a backup beside running writers; the file appears whole or not at all."""
    if target.exists():
        raise UsageError(f"{target} is there already", code="exists", hint="name another file, or remove it first")
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(target.name + ".unfinished")
    with tempfile.TemporaryDirectory(prefix=".backup-", dir=home.path) as scratch:
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # it may hold a key
        try:
            with os.fdopen(handle, "wb") as raw:
                with tarfile.open(fileobj=raw, mode="w") as archive:
                    manifest: dict[str, Any] = {
                        "format": FORMAT,
                        "node": keys.origin.hex(),
                        "first_key": keys.first_key.hex(),
                        "with_key": with_key,
                        "time": int(time.time()),
                        "repositories": [],
                    }
                    # Repositories first: the log may then be newer than a repository, which recovery handles, but
                    # never name a snapshot that its repository does not have.
                    for row, database in databases:
                        _add_copy(archive, database, Path(scratch), f"repos/{row.database}")
                        manifest["repositories"].append({"repo": row.url, "ref": row.ref, "database": row.database})
                    _add_copy(archive, store.database, Path(scratch), "node.db")
                    if with_key:
                        for path in sorted(home.key.glob("*.seed")):
                            _add_bytes(archive, f"keys/{path.name}", path.read_bytes())
                    _add_bytes(archive, _MANIFEST, json.dumps(manifest, indent=2).encode())
                raw.flush()
                os.fsync(raw.fileno())
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)
    return manifest


def _add_copy(archive: tarfile.TarFile, database: Database, scratch: Path, name: str) -> None:
    copy = scratch / "copy.db"
    copy.unlink(missing_ok=True)
    database.backup_to(copy)
    archive.add(copy, name)
    copy.unlink()


def _add_bytes(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    entry.mode = 0o600
    archive.addfile(entry, io.BytesIO(data))


def restore_backup(source: Path, home: Home) -> dict[str, Any]:
    """Unpack a backup into an empty data directory; the node holds its signatures back from then on."""
    if home.node_database.exists():
        raise UsageError(
            f"{home.path} already holds a node",
            code="exists",
            hint="restore into another directory with --home, or move this one away",
        )
    home.path.mkdir(parents=True, exist_ok=True, mode=0o700)
    scratch = Path(tempfile.mkdtemp(prefix=".restore-", dir=home.path))
    try:
        manifest = _unpack(source, scratch)
        mine = home.key.exists() and KeyRing(home.key)
        if not manifest["with_key"] and not (mine and mine.first_key.hex() == manifest["first_key"]):
            manifest["replicas"] = True
        _hold(scratch / "node.db", manifest)
        for name in ("repos", "keys"):
            if (scratch / name).exists():
                _move_into(scratch / name, home.path / name)
        (scratch / "node.db").replace(home.node_database)  # last: without it there is no node
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return manifest


def _unpack(source: Path, scratch: Path) -> dict[str, Any]:
    try:
        with tarfile.open(source, mode="r:") as archive:
            for entry in archive:
                if not entry.isreg() or not _known(entry.name):
                    raise StoreError(f"{source} holds {entry.name[:80]!r}, which no backup has", code="bad-backup")
                target = scratch / entry.name
                target.parent.mkdir(exist_ok=True, mode=0o700)
                data = archive.extractfile(entry)
                assert data is not None
                handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(handle, "wb") as out:
                    shutil.copyfileobj(data, out)
                    out.flush()
                    os.fsync(out.fileno())
        with (scratch / _MANIFEST).open("rb") as file:
            manifest: dict[str, Any] = json.loads(file.read(MAX_MANIFEST))
        if manifest["format"] != FORMAT or not (scratch / "node.db").exists():
            raise StoreError(f"{source} is not a backup of this version", code="bad-backup")
        wanted = {str(one["database"]) for one in manifest["repositories"]}
        missing = wanted - {path.name for path in (scratch / "repos").glob("*")}
        if missing or origin_id(bytes.fromhex(manifest["first_key"])).hex() != manifest["node"]:
            raise StoreError(f"{source} is not whole", code="bad-backup")
    except FileNotFoundError as error:
        raise StoreError(
            f"{source} is not a backup: {error.strerror}", code="bad-backup", hint="check the path"
        ) from error
    except (tarfile.TarError, OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            f"{source} is not a backup, or it is damaged ({error})", code="bad-backup", hint="use another backup"
        ) from error
    return manifest


def _known(name: str) -> bool:
    """Whether an entry may be in a backup at all; nothing can point out of the directory."""
    folder, _, file = name.rpartition("/")
    suffixes = {"": ("node.db", _MANIFEST), "repos": (".db",), "keys": (".seed",)}.get(folder)
    if suffixes is None or file.startswith(".") or "\\" in file or "\0" in file or is_working(file):
        return False
    return file in suffixes if not folder else file.endswith(suffixes)


def _hold(path: Path, manifest: dict[str, Any]) -> None:
    """Mark a restored node database, and where the key is not here, its repositories as another node's."""
    store = NodeStore(path)
    try:
        store.hold("it was restored from a backup, and may have signed more since then")
        if manifest.get("replicas"):
            store.become_replicas(origin_id(bytes.fromhex(manifest["first_key"])))
    finally:
        store.close()


def _move_into(source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True, mode=0o700)
    for path in sorted(source.iterdir()):
        path.replace(target / path.name)
