"""Every limit of extraction in one place. A change of any of them changes the extractor id.

What exceeds a limit is never an error: the file is reported as partial or failed, and an expression that is too deep or
has too many meanings is unresolved.
"""

from __future__ import annotations

from typing import Final

MAX_FILE_BYTES: Final = 4_000_000  # larger files get a coverage entry and nothing else
MAX_DEPTH: Final = 150  # of syntax below which nested definitions and expressions are not looked into
MAX_TREE_DEPTH: Final = 500  # of the syntax tree; what lies deeper is not captured
MAX_SCOPES: Final = 50_000  # definitions, lambdas and comprehensions in one file
MAX_CHAIN: Final = 24  # steps of one symbolic path
MAX_HOPS: Final = 12  # variables, results and imports that one path is followed through
MAX_VALUES: Final = 8  # meanings of one expression; the protocol allows as many candidates
MAX_BINDINGS: Final = 24  # assignments to one name that are looked into
MAX_NAME_BYTES: Final = 512  # of an identifier
MAX_QUALIFIED_BYTES: Final = 3_000  # of a qualified name or a canonical path; the protocol allows 4096
MAX_ANNOTATION_BYTES: Final = 2_000
MAX_SIGNATURE_BYTES: Final = 400
MAX_DOC_BYTES: Final = 2_000
MAX_ORDER: Final = 64  # entries of a method resolution order
MAX_TYPES: Final = 16  # in one fact
MAX_STARS: Final = 32  # star imports of a module, those of what it imports included
