"""Bodies of requests and answers: MessagePack, compressed where that pays; nothing is unpacked beyond its limit."""

from __future__ import annotations

from typing import Any, Final

import msgpack
import zstandard
from knowing_protocol.errors import MalformedError

MEDIA_TYPE: Final = "application/vnd.knowing.v1+msgpack"
COMPRESSED: Final = MEDIA_TYPE + "+zstd"
"""Not a content encoding: what is signed are the bytes that travel, and no server or proxy is to unpack them."""
ZSTD_MAGIC: Final = bytes.fromhex("28b52ffd")
MAX_BODY: Final = 64 << 20
"""The most that one body may unpack to."""
MAX_QUESTION: Final = 2 << 20
"""The most that a question may unpack to; only what is published is larger."""
MAX_LISTS: Final = 250_000
"""The most lists in one body: an empty one takes a byte on the way and sixty in memory."""
MAX_SENT: Final = 16 << 20
"""The most that one body may have on the way."""
_WORTH_IT: Final = 256


def encode(value: Any) -> tuple[bytes, str]:
    """A body and its media type."""
    plain: bytes = msgpack.packb(value)
    if len(plain) >= _WORTH_IT:
        small = zstandard.ZstdCompressor(level=3).compress(plain)
        if len(small) < len(plain):
            return small, COMPRESSED
    return plain, MEDIA_TYPE


def decode(data: bytes, media_type: str, limit: int = MAX_BODY) -> Any:
    """What a body says. Whatever it is, no more than `limit` bytes of it are unpacked."""
    if media_type == COMPRESSED:
        data = _unpacked(data, limit)
    elif media_type != MEDIA_TYPE:
        raise MalformedError(f"bodies are not {media_type[:60]!r} here", code="media-type")
    if len(data) > limit:
        raise MalformedError(f"a body has more than {limit} bytes", code="too-large")
    try:
        return msgpack.unpackb(data, strict_map_key=True, list_hook=_Counter(), ext_hook=_no_extension)
    except (ValueError, msgpack.UnpackException, RecursionError, TypeError) as error:
        raise MalformedError("a body is not MessagePack", code="not-msgpack") from error


class _Counter:
    """Lets lists pass until there are too many."""

    def __init__(self) -> None:
        self.left = MAX_LISTS

    def __call__(self, value: list[Any]) -> list[Any]:
        self.left -= 1
        if self.left < 0:
            raise MalformedError(f"a body has more than {MAX_LISTS} lists", code="too-large")
        return value


def _no_extension(_code: int, _data: bytes) -> Any:
    raise MalformedError("a body has an extension type", code="not-msgpack")


def count(value: Any, what: str) -> int:
    """A whole number from outside that databases can hold."""
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise MalformedError(f"{what} is not a number", code="wrong-type")
    return value


def _unpacked(data: bytes, limit: int) -> bytes:
    try:
        size = zstandard.frame_content_size(data)
        if size < 0 or size > limit:
            raise MalformedError(f"a body unpacks to more than {limit} bytes, or does not say to how many",
                                 code="too-large")  # fmt: skip
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=limit, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise MalformedError("a body is not zstd", code="not-zstd") from error


def fields(value: Any, **kinds: type | tuple[type, ...]) -> list[Any]:
    """The fields of a message, in the order asked for: exactly these, each of its type (None is written out)."""
    if not isinstance(value, dict) or value.keys() != kinds.keys():
        raise MalformedError(f"a message has the fields {', '.join(kinds)} and no others", code="fields")
    for name, kind in kinds.items():
        one = value[name]
        if isinstance(one, bool) or not isinstance(one, kind):
            raise MalformedError(f"the field {name!r} is not what it should be", code="wrong-type")
    return [value[name] for name in kinds]
