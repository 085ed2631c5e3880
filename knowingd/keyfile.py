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
    """The keys that this machine holds for a node; which of them signs is for the node's key notes to say."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seeds = {public_key_of(seed): seed for seed in map(_read, sorted(directory.glob("*.seed")))}

    @classmethod
    def create(cls, directory: Path) -> KeyRing:
        """The ring of a directory, with a first key if it has none."""
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        ring = cls(directory)
        if not ring._seeds:
            ring.add(secrets.token_bytes(32))
        return ring

    def add(self, seed: bytes) -> bytes:
        """Keep one more key; its public half."""
        public = public_key_of(seed)
        if public not in self._seeds:
            _write(self._directory / f"{len(self._seeds) + 1:04}.seed", seed)
            self._seeds[public] = seed
        return public

    def replace(self, seed: bytes) -> bytes:
        """Keep this key and no other, for a node that has signed nothing yet."""
        for path in self._directory.glob("*.seed"):
            path.unlink()
        self._seeds = {}
        return self.add(seed)

    @property
    def first_key(self) -> bytes:
        """The key that the node is named after."""
        return next(iter(self._seeds))

    @property
    def origin(self) -> bytes:
        """The id of the node."""
        return origin_id(self.first_key)

    def sign_log(self, text: str, epoch: int, key: bytes) -> str:
        """Sign a checkpoint."""
        return sign_note(text, [SigningKey(log_name(self.origin, epoch), self._seed(key))])

    def sign_node(self, text: str, *keys: bytes) -> str:
        """Sign a note that speaks for the node."""
        return sign_note(text, [SigningKey(node_name(self.origin), self._seed(key)) for key in keys])

    def sign(self, key: bytes, message: bytes) -> bytes:
        """The signature of a message that is no note, such as a request."""
        return SigningKey("", self._seed(key)).sign(message)

    def _seed(self, key: bytes) -> bytes:
        if key not in self._seeds:
            raise StoreError(
                f"the key {key.hex()[:16]} that must sign is not in {self._directory}",
                code="key-missing",
                hint="bring it back with `knowing key import FILE`",
            )
        return self._seeds[key]


def read_seed(path: Path) -> bytes:
    """A key from a file that somebody names."""
    return _read(path)


def _read(path: Path) -> bytes:
    try:
        if path.stat().st_mode & 0o077:
            raise StoreError(
                f"{path} can be read by others",
                code="key-permissions",
                hint=f"run `chmod 600 {path}` and rotate the key",
            )
        seed = bytes.fromhex(path.read_text("ascii").strip())
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}", code="bad-key", hint="check the path") from error
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
