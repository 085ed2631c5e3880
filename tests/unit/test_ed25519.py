"""Ed25519 verification against RFC 8032, against `cryptography`, and against keys and signatures made to deceive."""

from __future__ import annotations

from hashlib import sha512

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st
from knowing_protocol import ed25519
from knowing_protocol.ed25519 import Verifier, verify

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493

# RFC 8032, section 7.1: secret key, public key, message, signature.
RFC_8032 = {
    "TEST 1": (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        (
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
            "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
        ),
    ),
    "TEST 2": (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        (
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
            "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
        ),
    ),
    "TEST 3": (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        (
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
            "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
        ),
    ),
    "TEST SHA(abc)": (
        "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
        "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
        (
            "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
            "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
        ),
        (
            "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b589"
            "09351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704"
        ),
    ),
}

# The eight points of small order, canonically encoded: orders 1, 2, 4, 4, 8, 8, 8, 8.
SMALL_ORDER = [
    bytes.fromhex(text)
    for text in (
        "0100000000000000000000000000000000000000000000000000000000000000",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0000000000000000000000000000000000000000000000000000000000000080",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
    )
]

seeds = st.binary(min_size=32, max_size=32)
messages = st.binary(max_size=200)


def public_key_of(secret: Ed25519PrivateKey) -> bytes:
    return secret.public_key().public_bytes_raw()


def reference_verify(public_key: bytes, message: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def challenge(encoded_r: bytes, public_key: bytes, message: bytes) -> int:
    return int.from_bytes(sha512(encoded_r + public_key + message).digest(), "little") % L


def secret_scalar(seed: bytes) -> int:
    scalar = int.from_bytes(sha512(seed).digest()[:32], "little")
    return scalar & (2**254 - 8) | 2**254


def point(encoding: bytes) -> tuple[int, int, int, int]:
    decoded = ed25519._decoded(encoding)
    assert decoded is not None
    return decoded


def base_multiple(scalar: int) -> bytes:
    return ed25519._encoded(ed25519._base_and_key_multiple(scalar % L, 0, ed25519._IDENTITY))


def little(number: int) -> bytes:
    return number.to_bytes(32, "little")


@pytest.mark.parametrize("name", RFC_8032)
def test_rfc_8032_vector_verifies(name: str) -> None:
    seed, public_key, message, signature = map(bytes.fromhex, RFC_8032[name])
    assert public_key_of(Ed25519PrivateKey.from_private_bytes(seed)) == public_key
    assert verify(public_key, message, signature)


@pytest.mark.parametrize("name", RFC_8032)
def test_rfc_8032_vector_fails_for_another_message(name: str) -> None:
    _, public_key, message, signature = map(bytes.fromhex, RFC_8032[name])
    assert not verify(public_key, message + b"\x00", signature)


def test_verify_has_the_type_of_a_verifier() -> None:
    verifier: Verifier = verify
    assert not verifier(b"", b"", b"")


def test_the_import_builds_no_table() -> None:
    import subprocess
    import sys

    code = "import knowing_protocol.ed25519 as e; assert e._base_multiples.cache_info().currsize == 0"
    subprocess.run([sys.executable, "-c", code], check=True)


@given(seeds, messages)
def test_what_cryptography_signs_verifies(seed: bytes, message: bytes) -> None:
    secret = Ed25519PrivateKey.from_private_bytes(seed)
    assert verify(public_key_of(secret), message, secret.sign(message))


@settings(max_examples=300)
@given(seeds, st.binary(min_size=1, max_size=64), st.data())
def test_any_flipped_bit_fails(seed: bytes, message: bytes, data: st.DataObject) -> None:
    secret = Ed25519PrivateKey.from_private_bytes(seed)
    parts = [public_key_of(secret), message, secret.sign(message)]
    which = data.draw(st.integers(0, 2))
    bit = data.draw(st.integers(0, 8 * len(parts[which]) - 1))
    flipped = bytearray(parts[which])
    flipped[bit // 8] ^= 1 << bit % 8
    parts[which] = bytes(flipped)
    assert not verify(*parts)


@given(seeds, messages)
def test_adding_the_group_order_to_s_fails(seed: bytes, message: bytes) -> None:
    secret = Ed25519PrivateKey.from_private_bytes(seed)
    signature = secret.sign(message)
    s = int.from_bytes(signature[32:], "little")
    for multiple in range(1, (2**256 - 1 - s) // L + 1):
        malleated = signature[:32] + little(s + multiple * L)
        assert not verify(public_key_of(secret), message, malleated)


@given(st.binary(max_size=80), messages, st.binary(max_size=80))
def test_any_bytes_get_an_answer(public_key: bytes, message: bytes, signature: bytes) -> None:
    assert not verify(public_key, message, signature)


@given(st.binary(min_size=32, max_size=32), messages, st.binary(min_size=64, max_size=64))
def test_any_bytes_of_the_right_lengths_get_an_answer(public_key: bytes, message: bytes, signature: bytes) -> None:
    assert not verify(public_key, message, signature)


@pytest.mark.parametrize("length", [0, 1, 31, 33, 64])
def test_key_of_wrong_length_fails(length: int) -> None:
    secret = Ed25519PrivateKey.from_private_bytes(bytes(32))
    key = (public_key_of(secret) * 2)[:length]
    assert not verify(key, b"m", secret.sign(b"m"))


@pytest.mark.parametrize("length", [0, 1, 32, 63, 65, 128])
def test_signature_of_wrong_length_fails(length: int) -> None:
    secret = Ed25519PrivateKey.from_private_bytes(bytes(32))
    assert not verify(public_key_of(secret), b"m", (secret.sign(b"m") * 2)[:length])


def test_signature_without_its_last_zero_byte_fails() -> None:
    _, public_key, message, signature = map(bytes.fromhex, RFC_8032["TEST 2"])
    assert signature.endswith(b"\x00")
    assert not verify(public_key, message, signature[:-1])
    assert not verify(public_key, message, signature + b"\x00")


def test_key_with_a_zero_byte_more_fails_even_where_the_equation_holds() -> None:
    seed = next(seed for seed in map(little, range(100)) if base_multiple(secret_scalar(seed))[31] < 128)
    key = base_multiple(secret_scalar(seed)) + b"\x00"
    encoded_r = base_multiple(9)
    s = (9 + challenge(encoded_r, key, b"m") * secret_scalar(seed)) % L
    assert not verify(key, b"m", encoded_r + little(s))


@pytest.mark.parametrize("encoding", SMALL_ORDER, ids=bytes.hex)
def test_small_order_key_fails_even_where_the_equation_holds(encoding: bytes) -> None:
    # With a key of order dividing 8, R = [S]B fits whenever the challenge is a multiple of 8.
    s = 12345
    encoded_r = base_multiple(s)
    message = next(m for m in map(little, range(1000)) if challenge(encoded_r, encoding, m) % 8 == 0)
    signature = encoded_r + little(s)
    assert reference_verify(encoding, message, signature), "OpenSSL takes this forgery"
    assert not verify(encoding, message, signature)


def test_small_order_keys_are_eight_different_points() -> None:
    assert len({ed25519._encoded(point(encoding)) for encoding in SMALL_ORDER}) == 8
    assert all(ed25519._has_small_order(point(encoding)) for encoding in SMALL_ORDER)


@pytest.mark.parametrize("sign", [0, 1])
@pytest.mark.parametrize("excess", range(19))
def test_key_with_y_not_below_p_is_no_point(excess: int, sign: int) -> None:
    assert ed25519._decoded(little(P + excess | sign << 255)) is None


def test_non_canonical_key_fails_even_where_the_equation_holds() -> None:
    # y = p + 1 is a second way to write the neutral element, under which R = [S]B always fits.
    key = little(P + 1)
    signature = base_multiple(7) + little(7)
    assert reference_verify(key, b"any", signature), "OpenSSL takes this forgery"
    assert not verify(key, b"any", signature)


@pytest.mark.parametrize("y", [1, P - 1])
def test_sign_bit_on_a_zero_x_is_no_point(y: int) -> None:
    assert ed25519._decoded(little(y)) is not None
    assert ed25519._decoded(little(y | 1 << 255)) is None


def test_y_off_the_curve_is_no_point() -> None:
    assert ed25519._decoded(little(2)) is None
    assert not verify(little(2), b"", bytes(64))


@given(seeds)
def test_decoding_and_encoding_are_inverse(seed: bytes) -> None:
    encoding = public_key_of(Ed25519PrivateKey.from_private_bytes(seed))
    assert ed25519._encoded(point(encoding)) == encoding


@given(seeds)
def test_base_multiple_by_the_secret_scalar_is_the_public_key(seed: bytes) -> None:
    encoding = public_key_of(Ed25519PrivateKey.from_private_bytes(seed))
    assert base_multiple(secret_scalar(seed)) == encoding


@pytest.mark.parametrize("scalar", [0, 1, 2, 127, 128, 129, 255, 256, 2**252, L - 1])
@pytest.mark.parametrize("width", [2, 5, 8])
def test_signed_windows_sum_up_to_the_scalar(scalar: int, width: int) -> None:
    windows = ed25519._signed_windows(scalar, width)
    assert sum(digit << position for position, digit in windows) == scalar
    assert all(digit % 2 == 1 and abs(digit) < 2 ** (width - 1) for _, digit in windows)


@settings(max_examples=50)
@given(seeds, messages)
def test_signature_with_neutral_r_is_judged_as_openssl_does(seed: bytes, message: bytes) -> None:
    # R = 0 is what a signer with a zero nonce would publish; it fits the equation, and gives the secret away.
    key = public_key_of(Ed25519PrivateKey.from_private_bytes(seed))
    encoded_r = SMALL_ORDER[0]
    s = challenge(encoded_r, key, message) * secret_scalar(seed) % L
    signature = encoded_r + little(s)
    assert verify(key, message, signature)
    assert reference_verify(key, message, signature)


@settings(max_examples=200)
@given(seeds, messages, st.integers(1, 7), st.integers(0, 7))
def test_points_with_a_small_order_part_are_judged_as_openssl_does(
    seed: bytes, message: bytes, key_part: int, r_part: int
) -> None:
    # Here factor-eight verifiers and plain ones part ways: both must look at [S]B = R + [k]A and nothing looser.
    torsion = ed25519._as_addend(point(SMALL_ORDER[4]))

    def shifted(encoding: bytes, times: int) -> bytes:
        shifted_point = point(encoding)
        for _ in range(times):
            shifted_point = ed25519._added(shifted_point, torsion)
        return ed25519._encoded(shifted_point)

    key = shifted(base_multiple(secret_scalar(seed)), key_part)
    nonce = 1 + int.from_bytes(sha512(message).digest(), "little") % (L - 1)
    encoded_r = shifted(base_multiple(nonce), r_part)
    k = challenge(encoded_r, key, message)
    signature = encoded_r + little((nonce + k * secret_scalar(seed)) % L)
    fits = (r_part + k * key_part) % 8 == 0
    assert verify(key, message, signature) is fits
    assert reference_verify(key, message, signature) is fits
