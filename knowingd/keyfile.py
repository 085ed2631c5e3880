"""The node's keys on disk: one file for each, readable by its owner alone, written whole or not at all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from knowing_protocol.history import log_name, node_name, origin_id
from knowing_protocol.note import sign_note

from knowingd.errors import StoreError
from knowingd.keys import SigningKey, public_key_of


class KeyRing:
    """The keys of a node, oldest first; the last one signs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seeds = [_read(path) for path in sorted(directory.glob("*.seed"))]

    @classmethod
    def create(cls, directory: Path) -> KeyRing:
        """The ring of a directory, with a first key if it has none."""
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        ring = cls(directory)
        if not ring._seeds:
            _write(directory / "0001.seed", secrets.token_bytes(32))
            ring = cls(directory)
        return ring

    @property
    def first_key(self) -> bytes:
        """The key that the node is named after."""
        return public_key_of(self._seeds[0])

    @property
    def current_key(self) -> bytes:
        """The key that signs now."""
        return public_key_of(self._seeds[-1])

    @property
    def origin(self) -> bytes:
        """The id of the node."""
        return origin_id(self.first_key)

    def sign_log(self, text: str, epoch: int) -> str:
        """Sign a checkpoint."""
        return sign_note(text, [SigningKey(log_name(self.origin, epoch), self._seeds[-1])])

    def sign_node(self, text: str) -> str:
        """Sign a note that speaks for the node."""
        return sign_note(text, [SigningKey(node_name(self.origin), self._seeds[-1])])


def _read(path: Path) -> bytes:
    if path.stat().st_mode & 0o077:
        raise StoreError(
            f"{path} can be read by others", code="key-permissions", hint=f"run `chmod 600 {path}` and rotate the key"
        )
    try:
        seed = bytes.fromhex(path.read_text("ascii").strip())
    except ValueError:
        seed = b""
    if len(seed) != 32:
        raise StoreError(f"{path} is not a key", code="bad-key", hint="restore it from a backup")
    return seed


def _write(path: Path, seed: bytes) -> None:
    """Write a key so that after a crash it is there whole or not at all."""
    temporary = path.with_suffix(".new")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(handle, seed.hex().encode() + b"\n")
        os.fsync(handle)
    finally:
        os.close(handle)
    temporary.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
