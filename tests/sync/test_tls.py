"""Certificates: made once, pinned by fingerprint, and nobody else is talked to. Real TLS on loopback."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from knowingd.errors import StoreError, UsageError
from knowingd.sync import tls
from knowingd.sync.tls import CertificateFiles

NOW = 1_700_000_000


@asynccontextmanager
async def serving(files: CertificateFiles) -> AsyncIterator[tuple[int, list[str]]]:
    """A web server with this certificate, its port, and the requests that reached it."""
    from aiohttp import web

    seen: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append(request.path)
        return web.Response(text="hello")

    app = web.Application()
    app.router.add_get("/{tail:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls.server_context(files))
    await site.start()
    try:
        yield runner.addresses[0][1], seen
    finally:
        await runner.cleanup()


async def get(port: int, pin: bytes | None) -> str:
    import aiohttp

    async with (
        aiohttp.ClientSession() as session,
        session.get(
            f"https://127.0.0.1:{port}/x", ssl=ssl.create_default_context() if pin is None else aiohttp.Fingerprint(pin)
        ) as response,
    ):
        return await response.text()


def test_a_pinned_client_accepts_the_certificate_and_refuses_every_other(tmp_path: Path) -> None:
    import aiohttp

    async def main() -> None:
        mine, other = tls.own_certificate(tmp_path / "a", NOW), tls.own_certificate(tmp_path / "b", NOW)
        assert tls.fingerprint(mine.certificate) != tls.fingerprint(other.certificate)
        async with serving(mine) as (port, seen):
            assert await get(port, tls.fingerprint(mine.certificate)) == "hello"
            assert seen == ["/x"]
            with pytest.raises(aiohttp.ServerFingerprintMismatch):
                await get(port, tls.fingerprint(other.certificate))
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await get(port, None)  # without a pin a self-made certificate is a stranger's
            assert seen == ["/x"]  # nothing was sent to whom was not believed

    asyncio.run(main())


def test_whoever_trusts_the_file_can_verify_it_strictly_and_by_name(tmp_path: Path) -> None:
    files = tls.own_certificate(tmp_path, NOW, ["hub.acme.com", "10.1.2.3"])

    async def main() -> None:
        context = ssl.create_default_context(cafile=str(files.certificate))
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        async with serving(files) as (port, _):
            for name in ("127.0.0.1", "localhost", "hub.acme.com", "10.1.2.3"):
                _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
                writer.close()
                await writer.wait_closed()
            with pytest.raises(ssl.SSLCertVerificationError):
                await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname="evil.example")

    asyncio.run(main())


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl_accepts_it(tmp_path: Path) -> None:
    files = tls.own_certificate(tmp_path, NOW)

    async def main() -> None:
        async with serving(files) as (port, _):
            process = await asyncio.create_subprocess_exec(
                "curl", "-sS", "--noproxy", "*", "--cacert", str(files.certificate), f"https://127.0.0.1:{port}/",
                stdout=subprocess.PIPE,
            )  # fmt: skip
            output, _ = await process.communicate()
            assert output == b"hello"

    asyncio.run(main())


def test_it_is_made_once_for_ten_years_and_its_key_is_private(tmp_path: Path) -> None:
    from cryptography import x509

    first = tls.own_certificate(tmp_path / "tls", NOW)
    before = [path.read_bytes() for path in first]
    assert tls.own_certificate(tmp_path / "tls", NOW + 1000, ["other"]) == first
    assert [path.read_bytes() for path in first] == before
    assert first.key.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "tls").stat().st_mode & 0o077 == 0
    assert sorted(path.name for path in (tmp_path / "tls").iterdir()) == ["certificate.pem", "key.pem"]
    certificate = x509.load_pem_x509_certificate(before[0])
    assert (certificate.not_valid_after_utc - certificate.not_valid_before_utc).days == 3651


def test_a_crash_between_key_and_certificate_is_made_good(tmp_path: Path) -> None:
    files = tls.own_certificate(tmp_path, NOW)
    files.certificate.unlink()
    tls.server_context(tls.own_certificate(tmp_path, NOW))


def test_processes_that_start_at_once_agree(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: tls.own_certificate(tmp_path / "tls", NOW), range(8)))
    assert len({tls.fingerprint(files.certificate) for files in found}) == 1
    tls.server_context(found[0])


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    files = tls.own_certificate(tmp_path, NOW)
    files.key.chmod(0o640)
    with pytest.raises(StoreError, match="read by others"):
        tls.own_certificate(tmp_path, NOW)


def swapped(files: CertificateFiles, other: CertificateFiles) -> CertificateFiles:
    return CertificateFiles(files.certificate, other.key)


def missing(files: CertificateFiles, _: CertificateFiles) -> CertificateFiles:
    return files._replace(key=files.key.with_name("absent.pem"))


def garbage(files: CertificateFiles, _: CertificateFiles) -> CertificateFiles:
    files.certificate.write_bytes(b"\xff garbage")
    return files


def encrypted(files: CertificateFiles, _: CertificateFiles) -> CertificateFiles:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(files.key.read_bytes(), None)
    files.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    return files


@pytest.mark.parametrize("damage", [swapped, missing, garbage, encrypted])
def test_files_that_do_not_work_are_told_before_anybody_listens(
    tmp_path: Path, damage: Callable[[CertificateFiles, CertificateFiles], CertificateFiles]
) -> None:
    mine, other = tls.own_certificate(tmp_path / "a", NOW), tls.own_certificate(tmp_path / "b", NOW)
    with pytest.raises(UsageError) as caught:
        tls.server_context(damage(mine, other))
    assert caught.value.code == "bad-certificate"
    assert caught.value.hint


def test_fingerprints_are_those_of_openssl(tmp_path: Path) -> None:
    files = tls.own_certificate(tmp_path, NOW)
    found = tls.fingerprint(files.certificate)
    program = shutil.which("openssl")
    if program is not None:
        command = [program, "x509", "-noout", "-fingerprint", "-sha256", "-in", str(files.certificate)]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.partition("=")[2]
        assert tls.parse_fingerprint(printed) == found
    assert tls.parse_fingerprint(found.hex()) == found
    both = files.certificate.read_text() + tls.own_certificate(tmp_path / "b", NOW).certificate.read_text()
    assert tls.fingerprint_of(both) == found  # the first is the server's own, the others its chain
    with pytest.raises(UsageError):
        tls.parse_fingerprint("12")
    with pytest.raises(UsageError):
        tls.fingerprint_of("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----")
    for path in (files.key, tmp_path / "absent"):
        with pytest.raises(UsageError):
            tls.fingerprint(path)


def test_heavy_packages_load_only_for_whoever_connects() -> None:
    code = "import sys, knowingd.sync.tls, knowingd.sync.tokens, knowingd.sync.signatures, knowingd.sync.invites\n"
    code += "sys.exit(any(name in sys.modules for name in ('aiohttp', 'cryptography', 'structlog')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
