"""What schemathesis must be told of bodies between nodes: bytes go as they are."""

from __future__ import annotations

from typing import Any

import schemathesis

from knowingd.sync.wire import COMPRESSED, MEDIA_TYPE


@schemathesis.serializer(MEDIA_TYPE, COMPRESSED)
def as_it_is(_: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else repr(value).encode()
