"""`knowing.toml` in the node's home: how it serves, its limits, and grants, for those who keep such things in files.

    [serve]
    listen = "0.0.0.0:7411"
    public_url = "https://hub.example.com"
    tls_cert = "/etc/knowing/cert.pem"
    tls_key = "/etc/knowing/key.pem"
    behind_proxy = false

    [limits]
    min_free_mb = 512          # below, nothing is taken in any more; questions are still answered
    peer_disk_mb = 0           # how much one peer's repositories may take; 0 is any

    [grants]
    "5f2a9c…" = ["github.com/acme/*"]          # a peer by its name or the beginning of its id
    "alice" = [{ pattern = "github.com/acme/shop", relay = true }]

What is wrong in the file is said in one sentence. A running node reads it again when it changes; grants that it names
are given, those that it no longer names are ended, and those that were given by hand stay.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final, NamedTuple

from knowingd.errors import UsageError

FILE: Final = "knowing.toml"
MIN_FREE: Final = 512 << 20


class FileGrant(NamedTuple):
    """A grant as the file has it."""

    peer: str
    pattern: str
    relay: bool


class Settings(NamedTuple):
    """What the file says, or would say by default."""

    listen: str | None = None
    public_url: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    behind_proxy: bool = False
    min_free: int = MIN_FREE
    peer_disk: int = 0
    grants: tuple[FileGrant, ...] = ()


_SERVE: Final[dict[str, type]] = {
    "listen": str, "public_url": str, "tls_cert": str, "tls_key": str, "behind_proxy": bool
}  # fmt: skip
_LIMITS: Final[dict[str, type]] = {"min_free_mb": int, "peer_disk_mb": int}


def read_settings(home: Path) -> Settings:
    """The settings of a home; the defaults where there is no file."""
    path = home / FILE
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return Settings()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path}: {error}", code="settings", hint="see docs/guide/federation.md") from error
    for name in data:
        if name not in ("serve", "limits", "grants") or not isinstance(data[name], dict):
            raise _wrong(path, f"there is no section [{name}]")
    serve, limits = data.get("serve", {}), data.get("limits", {})
    _check(path, "serve", serve, _SERVE)
    _check(path, "limits", limits, _LIMITS)
    found = Settings(**serve, grants=tuple(_grants(path, data.get("grants", {}))))
    if (found.tls_cert is None) != (found.tls_key is None):
        raise _wrong(path, "tls_cert and tls_key come together")
    return found._replace(
        min_free=limits.get("min_free_mb", MIN_FREE >> 20) << 20, peer_disk=limits.get("peer_disk_mb", 0) << 20
    )


def _check(path: Path, section: str, values: dict[str, Any], kinds: dict[str, type]) -> None:
    for name, value in values.items():
        if name not in kinds:
            raise _wrong(path, f"[{section}] has no {name!r}")
        if type(value) is not kinds[name] or (isinstance(value, int) and value < 0):
            raise _wrong(path, f"{name} of [{section}] is not what it should be")


def _grants(path: Path, values: dict[str, Any]) -> list[FileGrant]:
    found = []
    for peer, patterns in values.items():
        if not isinstance(patterns, list):
            raise _wrong(path, f"the grants of {peer!r} are a list")
        for one in patterns:
            if isinstance(one, str):
                found.append(FileGrant(peer, one, relay=False))
            elif isinstance(one, dict) and one.keys() <= {"pattern", "relay"} and isinstance(one.get("pattern"), str):
                found.append(FileGrant(peer, one["pattern"], relay=one.get("relay", False) is True))
            else:
                raise _wrong(path, f"a grant of {peer!r} is a pattern, or a pattern and relay")
    return found


def _wrong(path: Path, what: str) -> UsageError:
    return UsageError(f"{path}: {what}", code="settings", hint="see docs/guide/federation.md")
