"""The one error root, and the kernel's own errors.

Every error carries a stable `code` for machines, a message that says what happened, and a `hint` that says what to
do next. Surfaces map `exit_code` to the process and the three texts to one JSON shape; nothing else is needed.
"""

from __future__ import annotations


class KnowingError(Exception):
    """The root of every error that a user may see."""

    code = "failed"
    exit_code = 1

    def __init__(self, message: str, *, code: str | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if code is not None:
            self.code = code

    def as_json(self) -> dict[str, dict[str, str]]:
        """The one JSON shape of an error."""
        return {"error": {"code": self.code, "message": self.message, "hint": self.hint}}


class InvalidNameError(KnowingError):
    """A repository URL, canonical path, symbol part or enumeration member that is not well formed."""

    code = "invalid-name"
    exit_code = 2


class MalformedError(KnowingError):
    """Bytes that are not the canonical encoding of what they claim to be."""

    code = "malformed"
    exit_code = 3


class RejectedError(KnowingError):
    """A proof, signature or record that does not show what it claims; `code` names the defect."""

    code = "rejected"
    exit_code = 3

    def __init__(self, code: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, code=code, hint=hint)
