"""Signing keys: the fast half of what the kernel does slowly. Signing and quick checking come from `cryptography`."""

from __future__ import annotations

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


class SigningKey:
    """An Ed25519 key that signs notes under one name; the kernel's `Signer`."""

    def __init__(self, name: str, seed: bytes) -> None:
        """A key from its 32-byte seed."""
        self.name = name
        self._key = Ed25519PrivateKey.from_private_bytes(seed)
        self.public_key = self._key.public_key().public_bytes_raw()

    def sign(self, message: bytes) -> bytes:
        """The signature of a message."""
        return self._key.sign(message)


def public_key_of(seed: bytes) -> bytes:
    """The public key that belongs to a seed."""
    return SigningKey("", seed).public_key


def verify(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """The kernel's `Verifier`, many times faster."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True
