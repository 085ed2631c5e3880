"""Checking Ed25519 signatures (RFC 8032) with nothing but integers and SHA-512.

It promises one answer per input: `verify` says True only if all of this holds, and False otherwise.

- The key has 32 bytes, the signature 64.
- S, the second half of the signature, is below the group order L. S + L would be a second signature of the same text.
- The key is the one canonical encoding of a point on the curve: y below p, and no sign bit where x is zero.
- The key does not have small order. Under such a key a signature can be made that fits almost any message.
- The encoding of [S]B - [k]A is, byte for byte, the first half of the signature. There is no factor of eight.

The first, second and last are also what OpenSSL, and with it the `cryptography` package, decides. The rules on the
key are stricter than OpenSSL, which takes any encoding that it can decode; no key made by an honest signer differs.

It must never sign or hold a secret: nothing here runs in constant time, which is harmless only for public values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from hashlib import sha512
from typing import TypeAlias

PUBLIC_KEY_SIZE = 32
SIGNATURE_SIZE = 64

Verifier: TypeAlias = Callable[[bytes, bytes, bytes], bool]
"""`(public_key, message, signature) -> verified`: the shape of `verify`, so that a faster one can take its place."""

# (X, Y, Z, T) with x = X/Z, y = Y/Z, xy = T/Z. Coordinates are residues and need not be reduced.
_Point: TypeAlias = tuple[int, int, int, int]

# A point made ready to be added: (Y + X, Y - X, 2dT, 2Z).
_Addend: TypeAlias = tuple[int, int, int, int]

_P = 2**255 - 19
_L = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P
_SQRT_MINUS_ONE = pow(2, (_P - 1) // 4, _P)
_IDENTITY: _Point = (0, 1, 1, 0)
_BASE_ENCODING = b"\x58" + b"\x66" * 31

# Widths of the signed windows. The key's table is made anew for every signature, the base point's only once.
_KEY_WIDTH = 5
_BASE_WIDTH = 8


def verify(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether `signature` is one of `message` by `public_key`; whatever the bytes are, it answers and never raises."""
    if len(public_key) != PUBLIC_KEY_SIZE or len(signature) != SIGNATURE_SIZE:
        return False
    encoded_r = signature[:32]
    s = int.from_bytes(signature[32:], "little")
    if s >= _L:
        return False
    key = _decoded(public_key)
    if key is None or _has_small_order(key):
        return False
    digest = sha512(encoded_r)
    digest.update(public_key)
    digest.update(message)
    k = int.from_bytes(digest.digest(), "little") % _L
    return _encoded(_base_and_key_multiple(s, k, _negated(key))) == encoded_r


def is_public_key(key: bytes) -> bool:
    """Whether a key is the canonical encoding of a point that is not of small order."""
    point = _decoded(key) if len(key) == PUBLIC_KEY_SIZE else None
    return point is not None and not _has_small_order(point)


def _decoded(encoding: bytes) -> _Point | None:
    """The point that these 32 bytes are the canonical encoding of, if there is one."""
    number = int.from_bytes(encoding, "little")
    x_is_odd = number >> 255
    y = number & (2**255 - 1)
    if y >= _P:
        return None
    # From -x^2 + y^2 = 1 + d x^2 y^2 follows x^2 = u / v. Root and division take a single power, since p = 5 mod 8.
    u = (y * y - 1) % _P
    v = (_D * y * y + 1) % _P
    v3 = v * v * v % _P
    x = u * v3 * pow(u * v3 * v3 * v, (_P - 5) // 8, _P) % _P
    remainder = v * x * x % _P
    if remainder == -u % _P:
        x = x * _SQRT_MINUS_ONE % _P
    elif remainder != u:
        return None
    if x == 0 and x_is_odd:
        return None
    if x & 1 != x_is_odd:
        x = _P - x
    return x, y, 1, x * y % _P


def _encoded(point: _Point) -> bytes:
    x, y, z, _ = point
    # The formulas in use are complete, so z is never zero and has an inverse.
    inverse = pow(z, -1, _P)
    return (y * inverse % _P | (x * inverse % _P & 1) << 255).to_bytes(32, "little")


def _has_small_order(point: _Point) -> bool:
    x, y, z, _ = _doubled(point, 3)
    return x % _P == 0 and (y - z) % _P == 0


def _negated(point: _Point) -> _Point:
    x, y, z, t = point
    return -x, y, z, -t


def _doubled(point: _Point, times: int) -> _Point:
    """`point` doubled `times` times, once or more. T is worked out at the end only: doubling does not read it."""
    x, y, z, _ = point
    e = h = 0
    for _ in range(times):
        xx = x * x % _P
        yy = y * y % _P
        e = 2 * x * y % _P
        g = yy - xx
        h = -xx - yy
        f = g - 2 * z * z % _P
        x, y, z = e * f % _P, g * h % _P, f * g % _P
    return x, y, z, e * h % _P


def _added(point: _Point, addend: _Addend) -> _Point:
    x, y, z, t = point
    y_plus_x, y_minus_x, t2d, z2 = addend
    a = (y - x) * y_minus_x
    b = (y + x) * y_plus_x
    c = t * t2d
    d = z * z2
    e, f, g, h = (b - a) % _P, (d - c) % _P, (d + c) % _P, (b + a) % _P
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _as_addend(point: _Point) -> _Addend:
    x, y, z, t = point
    return (y + x) % _P, (y - x) % _P, 2 * _D * t % _P, 2 * z % _P


def _odd_multiples(point: _Point, width: int) -> dict[int, _Addend]:
    """Every odd digit of a signed window of this width, with that multiple of `point`."""
    twice = _as_addend(_doubled(point, 1))
    multiples: dict[int, _Addend] = {}
    for digit in range(1, 2 ** (width - 1), 2):
        y_plus_x, y_minus_x, t2d, z2 = multiples[digit] = _as_addend(point)
        multiples[-digit] = y_minus_x, y_plus_x, -t2d, z2
        point = _added(point, twice)
    return multiples


@cache
def _base_multiples() -> dict[int, _Addend]:
    """The base point's table, built by the first verification and not by the import."""
    base = _decoded(_BASE_ENCODING)
    assert base is not None
    return _odd_multiples(base, _BASE_WIDTH)


def _signed_windows(scalar: int, width: int) -> list[tuple[int, int]]:
    """Pairs of bit position and odd digit with `scalar` = sum of digit * 2^position, at least `width` bits apart."""
    windows: list[tuple[int, int]] = []
    position = 0
    while scalar:
        zeros = (scalar & -scalar).bit_length() - 1
        scalar >>= zeros
        position += zeros
        digit = scalar & (2**width - 1)
        if digit >> (width - 1):
            digit -= 2**width
        windows.append((position, digit))
        scalar -= digit
    return windows


def _base_and_key_multiple(s: int, k: int, key: _Point) -> _Point:
    """[s]B + [k]key, both sums sharing one run of doublings."""
    base_multiples = _base_multiples()
    key_multiples = _odd_multiples(key, _KEY_WIDTH)
    additions = [(position, base_multiples[digit]) for position, digit in _signed_windows(s, _BASE_WIDTH)]
    additions += [(position, key_multiples[digit]) for position, digit in _signed_windows(k, _KEY_WIDTH)]
    additions.sort(key=lambda addition: addition[0], reverse=True)
    total = _IDENTITY
    height = additions[0][0] if additions else 0
    for position, addend in additions:
        if position < height:
            total = _doubled(total, height - position)
            height = position
        total = _added(total, addend)
    return _doubled(total, height) if height else total
