"""Certificates: one that the node makes for itself and peers pin, or files that an operator gives.

The self-made certificate is made once, in `tls/` of the data directory, on a P-256 key (everything that speaks TLS
takes those; Ed25519 certificates are refused by browsers, Go's older clients and curl on macOS), for ten years. Nobody
is asked to trust whoever signed it: a peer knows its SHA-256 fingerprint from the invitation and accepts that one
certificate, whatever it says about names and dates.

Promises: the key file is readable by its owner alone and, once written, never written again, also when two processes
start at once; a pinned client talks to the holder of that certificate or to nobody; a client without a pin verifies as
browsers do.
Must never: turn verification off without a pin in its place. Heavy packages load only where a certificate is made or a
connection is about to be.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import ipaddress
import os
import re
import secrets
import ssl
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from knowingd.errors import StoreError, UsageError

if TYPE_CHECKING:
    from cryptography.x509 import GeneralName

YEARS: Final = 10
_HEX: Final = re.compile(r"[0-9a-f]{64}")
_PEM: Final = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")


class CertificateFiles(NamedTuple):
    """Where a certificate (with its chain) and its key are; the two may be one file."""

    certificate: Path
    key: Path


def own_certificate(directory: Path, now: int, names: Iterable[str] = ()) -> CertificateFiles:
    """The node's self-made certificate, made now if there is none; `names` are hosts that it is to be valid for."""
    files = CertificateFiles(directory / "certificate.pem", directory / "key.pem")
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not files.key.exists():
        _write_once(files.key, _new_key())
    if files.key.stat().st_mode & 0o077:
        raise StoreError(
            f"{files.key} can be read by others",
            code="key-permissions",
            hint=f"remove {directory} for a new certificate; peers must then be invited again",
        )
    if not files.certificate.exists():
        _write_once(files.certificate, _new_certificate(files.key.read_bytes(), now, (*_LOCAL_NAMES, *names)))
    return files


def fingerprint(certificate: Path) -> bytes:
    """The SHA-256 of the first certificate in a file, as it goes over the wire."""
    try:
        text = certificate.read_text("ascii")
    except OSError as error:
        raise UsageError(f"{certificate}: {error.strerror}", code="bad-certificate", hint="check the path") from error
    except UnicodeDecodeError:
        text = ""
    return fingerprint_of(text, str(certificate))


def fingerprint_of(pem: str, place: str = "the text") -> bytes:
    """The SHA-256 of the first certificate in a PEM text."""
    match = _PEM.search(pem)
    try:
        der = ssl.PEM_cert_to_DER_cert(match[0]) if match else b""
    except ValueError:
        der = b""
    if der:
        return sha256(der).digest()
    raise UsageError(f"{place} has no certificate inside", code="bad-certificate", hint="it must be a PEM file")


def parse_fingerprint(text: str) -> bytes:
    """A fingerprint as people paste it: 64 hex digits, with or without colons, in either case."""
    plain = text.strip().replace(":", "").lower()
    if not _HEX.fullmatch(plain):
        raise UsageError(
            "that is not the SHA-256 fingerprint of a certificate",
            code="bad-fingerprint",
            hint="`openssl x509 -noout -fingerprint -sha256 -in FILE` prints one",
        )
    return bytes.fromhex(plain)


def server_context(files: CertificateFiles) -> ssl.SSLContext:
    """What a server needs to listen with a certificate, the self-made one or an operator's."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    for path in files:
        if not os.access(path, os.R_OK):
            why = "it cannot be read" if path.exists() else "there is no such file"
            raise UsageError(f"{path}: {why}", code="bad-certificate", hint="check the path and its permissions")
    try:
        # An empty password, or else OpenSSL asks on the terminal, and a service hangs.
        context.load_cert_chain(files.certificate, files.key, password="")
    except (ssl.SSLError, ValueError, OSError) as error:
        raise UsageError(
            f"{files.certificate} and {files.key} are no certificate with its key ({error})",
            code="bad-certificate",
            hint="both must be PEM, the key without a password, and belong to each other",
        ) from error
    return context


def _new_key() -> bytes:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _new_certificate(key_pem: bytes, now: int, names: Iterable[str]) -> bytes:
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415

    key = serialization.load_pem_private_key(key_pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise StoreError("the key of the self-made certificate is not one of ours", code="bad-certificate")
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "knowing node")])
    begin = dt.datetime.fromtimestamp(now, dt.UTC)
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin - dt.timedelta(days=1))  # a peer whose clock is behind reads it too
        .not_valid_after(begin + dt.timedelta(days=365 * YEARS))
        .add_extension(x509.SubjectAlternativeName(_alternative_names(names)), critical=False)
        # It signs no other certificate, so that whoever trusts it as a file trusts one server and no more.
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([x509.OID_SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)


def _alternative_names(names: Iterable[str]) -> list[GeneralName]:
    from cryptography import x509  # noqa: PLC0415

    found: list[GeneralName] = []
    for name in dict.fromkeys(names):
        try:
            found.append(x509.IPAddress(ipaddress.ip_address(name)))
        except ValueError:
            found.append(x509.DNSName(name))
    return found


def _write_once(path: Path, data: bytes) -> None:
    """Write a file whole or not at all; if another process was first, its file stays and ours goes."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)  # unlike a rename it never replaces
    finally:
        temporary.unlink()
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
