"""The kernel of knowing: what two implementations must agree on, byte for byte.

Standard library only; no I/O, no clock, no sockets. `protocol/SPEC.md` is the text, this package is the code,
`protocol/vectors/` holds both to the same bytes. Only `__main__` reads files and prints.
"""

PROTOCOL_VERSION = 1
