"""Signed notes (c2sp.org/signed-note) and the checkpoints of a log that they carry (c2sp.org/tlog-checkpoint).

It promises one text per value and one value per text: what parses is written back character by character, what is
written parses to an equal value, and anything else is a `MalformedError`. Limits are checked before the work that
they bound: 64 KiB and 16 signatures to a note, 200 characters to a key name, 8 extension lines to a checkpoint.

A parsed note is still nobody's word. It must never be acted on before `check_note` has passed for a key that the
caller trusts; signatures by other keys are carried along and mean nothing.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

from knowing_protocol.ed25519 import PUBLIC_KEY_SIZE
from knowing_protocol.errors import MalformedError, RejectedError
from knowing_protocol.tlog import HASH_SIZE, MAX_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from knowing_protocol.ed25519 import Verifier

MAX_NOTE_SIZE = 64 * 1024
MAX_SIGNATURES = 16
MAX_EXTENSIONS = 8
MAX_KEY_NAME_LENGTH = 200

_ED25519 = b"\x01"
_KEY_ID_SIZE = 4
_SIGNATURE_START = "\N{EM DASH} "
_LONGEST_VERIFIER_KEY = MAX_KEY_NAME_LENGTH + len("+01234567+") + 44

# Spaces are listed rather than looked up, so that no two versions of the Unicode tables disagree on a name. With them
# go plus, the control characters (C0, DEL, C1), and surrogates, which UTF-8 cannot write.
_KEY_NAME = re.compile(
    r"[^\x00-\x20+\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ud800-\udfff]"
    rf"{{1,{MAX_KEY_NAME_LENGTH}}}"
)
_FORBIDDEN_IN_TEXT = re.compile(r"[\x00-\x09\x0b-\x1f\x7f\ud800-\udfff]")
_DECIMAL = re.compile(r"0|[1-9][0-9]{0,15}")


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature line: who says to have signed, and the bytes that are to show it."""

    name: str
    key_id: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class Note:
    """A text, with its final newline, and the signatures that came with it."""

    text: str
    signatures: tuple[Signature, ...]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The size and root of a log at one moment; `origin` says which log."""

    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...] = ()


class Signer(Protocol):
    """Something that holds an Ed25519 private key elsewhere and signs with it."""

    @property
    def name(self) -> str:
        """The key name."""
        ...

    @property
    def public_key(self) -> bytes:
        """The 32 bytes of the public key."""
        ...

    def sign(self, message: bytes) -> bytes:
        """The Ed25519 signature of `message`."""
        ...


def valid_key_name(name: str) -> bool:
    """Whether a key may have this name: 1 to 200 characters without spaces, plus or control characters."""
    return _KEY_NAME.fullmatch(name) is not None


def key_id(name: str, public_key: bytes) -> bytes:
    """The four bytes that tell keys of one name apart. They are a label and prove nothing."""
    if not valid_key_name(name):
        raise MalformedError("the key name is empty, too long, or has a space, plus or control character")
    if len(public_key) != PUBLIC_KEY_SIZE:
        raise MalformedError("an Ed25519 public key must be 32 bytes")
    return sha256(name.encode() + b"\n" + _ED25519 + public_key).digest()[:_KEY_ID_SIZE]


def format_verifier_key(name: str, public_key: bytes) -> str:
    """The text in which a public key is handed around: name, key id in hex, type and key in base64."""
    return f"{name}+{key_id(name, public_key).hex()}+{_to_base64(_ED25519 + public_key)}"


def parse_verifier_key(text: str) -> tuple[str, bytes]:
    """The name and the public key in a verifier key."""
    # Base64 may have a plus of its own; a name and an id cannot.
    parts = text.split("+", 2) if len(text) <= _LONGEST_VERIFIER_KEY else []
    if len(parts) != 3:
        raise MalformedError("a verifier key must be a name, a key id and a key with plus signs between them")
    name, _, encoded = parts
    typed_key = _from_base64(encoded)
    if typed_key[:1] != _ED25519:
        raise MalformedError("the verifier key is not of type Ed25519")
    public_key = typed_key[1:]
    if format_verifier_key(name, public_key) != text:
        raise MalformedError("the key id of the verifier key does not belong to its name and key")
    return name, public_key


def parse_note(data: bytes | str) -> Note:
    """Read a signed note, without checking any signature."""
    text, separator, signature_block = _bounded_text(data).rpartition("\n\n")
    if not separator:
        raise MalformedError("the note has no blank line between text and signatures")
    if not signature_block.endswith("\n"):
        raise MalformedError("the note must have signatures and end in a newline")
    if signature_block.count("\n") > MAX_SIGNATURES:
        raise MalformedError("the note has more than 16 signatures")
    signatures = tuple(map(_parse_signature_line, signature_block[:-1].split("\n")))
    if len({(signature.name, signature.key_id) for signature in signatures}) != len(signatures):
        raise MalformedError("the note has two signatures by one key")
    return Note(text + "\n", signatures)


def format_note(note: Note) -> str:
    """Write a signed note; a note that could not be read back as it is, is refused."""
    lines = [
        f"{_SIGNATURE_START}{signature.name} {_to_base64(signature.key_id + signature.signature)}\n"
        for signature in note.signatures
    ]
    written = note.text + "\n" + "".join(lines)
    if parse_note(written) != note:
        raise MalformedError("the note has no text form: a key id must be 4 bytes, and the text must end in newline")
    return written


def signed_bytes(text: str) -> bytes:
    """What the signatures of a note are made over: its text with the final newline, and not the blank line."""
    if not text.endswith("\n"):
        raise MalformedError("the text of a note must end in a newline")
    return _bounded_text(text).encode()


def sign_note(text: str, signers: Iterable[Signer]) -> str:
    """The note with this text and one signature by each signer, in their order."""
    message = signed_bytes(text)
    signatures = tuple(
        Signature(signer.name, key_id(signer.name, signer.public_key), signer.sign(message)) for signer in signers
    )
    return format_note(Note(text, signatures))


def signature_by(note: Note, name: str, public_key: bytes) -> Signature | None:
    """The signature that says to be by this key, if there is one. It has not been verified."""
    wanted = (name, key_id(name, public_key))
    for signature in note.signatures:
        if (signature.name, signature.key_id) == wanted:
            return signature
    return None


def check_note(note: Note, name: str, public_key: bytes, verify: Verifier) -> None:
    """Raise unless this key has signed the note."""
    signature = signature_by(note, name, public_key)
    if signature is None:
        raise RejectedError("unsigned", "the note has no signature by the expected key")
    if not verify(public_key, signed_bytes(note.text), signature.signature):
        raise RejectedError("bad-signature", "the signature by the expected key does not fit the note")


def checkpoint_text(checkpoint: Checkpoint) -> str:
    """The note text of a checkpoint; a checkpoint that could not be read back as it is, is refused."""
    if not 0 <= checkpoint.size <= MAX_SIZE:
        raise MalformedError("the log size of the checkpoint is out of range")
    lines = (checkpoint.origin, str(checkpoint.size), _to_base64(checkpoint.root), *checkpoint.extensions)
    text = "\n".join(lines) + "\n"
    if parse_checkpoint(text) != checkpoint:
        raise MalformedError("the checkpoint has no text form: a line of it has a newline inside")
    return text


def parse_checkpoint(text: str) -> Checkpoint:
    """Read the note text of a checkpoint."""
    lines = _bounded_text(text).split("\n", 3 + MAX_EXTENSIONS)
    if lines.pop() != "":
        raise MalformedError("the checkpoint has more than 8 extension lines, or does not end in a newline")
    if len(lines) < 3 or "" in lines:
        raise MalformedError("a checkpoint must have an origin, a size, a root, and no empty line")
    origin, size, encoded_root, *extensions = lines
    if not _DECIMAL.fullmatch(size) or int(size) > MAX_SIZE:
        raise MalformedError("the log size of the checkpoint is not a plain decimal number below 2^53")
    root = _from_base64(encoded_root)
    if len(root) != HASH_SIZE:
        raise MalformedError("the root of the checkpoint must be 32 bytes")
    return Checkpoint(origin, int(size), root, tuple(extensions))


def _parse_signature_line(line: str) -> Signature:
    parts = line.removeprefix(_SIGNATURE_START).split(" ")
    if not line.startswith(_SIGNATURE_START) or len(parts) != 2:
        raise MalformedError("a signature line must be an em dash, a key name and a signature, one space apart")
    name, encoded = parts
    if not valid_key_name(name):
        raise MalformedError("the key name of a signature is too long or has a character that it must not have")
    blob = _from_base64(encoded)
    if len(blob) <= _KEY_ID_SIZE:
        raise MalformedError("a signature must be a key id of 4 bytes and at least one byte more")
    return Signature(name, blob[:_KEY_ID_SIZE], blob[_KEY_ID_SIZE:])


def _bounded_text(data: bytes | str) -> str:
    """`data` as text within the limits of a note: size, UTF-8, and no control character but newline."""
    # Every character takes a byte or more, so a text that is too long is refused before it is encoded.
    if len(data) > MAX_NOTE_SIZE:
        raise MalformedError("the note is larger than 64 KiB")
    if isinstance(data, str):
        text = data
    else:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise MalformedError("the note is not valid UTF-8") from None
    if _FORBIDDEN_IN_TEXT.search(text):
        raise MalformedError("the note has a control character or a surrogate")
    if isinstance(data, str) and len(text.encode()) > MAX_NOTE_SIZE:
        raise MalformedError("the note is larger than 64 KiB")
    return text


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _from_base64(text: str) -> bytes:
    """Decode standard base64, taking for each value the one text that encoding gives."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        raise MalformedError("the base64 is not valid") from None
    if _to_base64(data) != text:
        raise MalformedError("the base64 is not in its canonical form")
    return data
