"""The closed enumerations of the graph: node kinds, edge types, provenance tiers, coverage reasons.

A value outside of these is refused wherever it enters. Confidence is a table by provenance, never a free number, so
that two nodes cannot disagree about it. Adding a member is a change of `SPEC.md` and of the extractor id.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeVar

from knowing_protocol.errors import InvalidNameError


class NodeKind(StrEnum):
    """What a node of the graph is."""

    FUNCTION = "function"
    TYPE = "type"
    METHOD = "method"
    INTERFACE = "interface"
    CONST = "const"
    VAR = "var"
    FIELD = "field"
    MACRO = "macro"
    SECTION = "section"
    SERVICE = "service"
    ROUTE = "route"
    EXTERNAL = "external"
    FILE = "file"
    PACKAGE = "package"


class EdgeType(StrEnum):
    """How one node relates to another; 38 of them."""

    CALLS = "calls"
    IMPORTS = "imports"
    IMPLEMENTS = "implements"
    REFERENCES = "references"
    HANDLES_ROUTE = "handles_route"
    DEPENDS_ON = "depends_on"
    DEPLOYS = "deploys"
    EXPOSES = "exposes"
    CONFIGURES = "configures"
    PUBLISHES = "publishes"
    SUBSCRIBES = "subscribes"
    CONNECTS_TO = "connects_to"
    THROWS = "throws"
    EXTENDS = "extends"
    OVERRIDES = "overrides"
    DECORATES = "decorates"
    OWNED_BY = "owned_by"
    TESTS = "tests"
    AUTHORED_BY = "authored_by"
    DOCUMENTS = "documents"
    CONSUMES_ENDPOINT = "consumes_endpoint"
    IMPLEMENTS_RPC = "implements_rpc"
    CONSUMES_RPC = "consumes_rpc"
    GATED_BY_FLAG = "gated_by_flag"
    DEPLOYED_BY = "deployed_by"
    TESTED_BY = "tested_by"
    RUNTIME_CALLS = "runtime_calls"
    RUNTIME_RPC = "runtime_rpc"
    RUNTIME_PRODUCES = "runtime_produces"
    RUNTIME_CONSUMES = "runtime_consumes"
    CONTAINS = "contains"
    MEMBER_OF = "member_of"
    SIMILAR_TO = "similar_to"
    CO_TESTED_WITH = "co_tested_with"
    TYPE_HINT_OF = "type_hint_of"
    ACCESSES_FIELD = "accesses_field"
    READS_ENV = "reads_env"
    EXECUTES_PROCESS = "executes_process"


USES: Final = (
    EdgeType.CALLS,
    EdgeType.REFERENCES,
    EdgeType.IMPORTS,
    EdgeType.DECORATES,
    EdgeType.EXTENDS,
)
"""What `--type uses` means."""


class Provenance(StrEnum):
    """How an edge was observed, best first. `otel_trace` has four tiers by the number of observations."""

    AST_RESOLVED = "ast_resolved"
    SCIP_RESOLVED = "scip_resolved"
    OTEL_TRACE_1000 = "otel_trace_1000"
    LSP_RESOLVED = "lsp_resolved"
    RUNTIME_OBSERVED = "runtime_observed"
    OTEL_TRACE_100 = "otel_trace_100"
    AST_INFERRED = "ast_inferred"
    OTEL_TRACE_10 = "otel_trace_10"
    OTEL_TRACE_1 = "otel_trace_1"


CONFIDENCE: Final[dict[Provenance, float]] = {
    Provenance.AST_RESOLVED: 1.0,
    Provenance.SCIP_RESOLVED: 0.95,
    Provenance.OTEL_TRACE_1000: 0.95,
    Provenance.LSP_RESOLVED: 0.9,
    Provenance.RUNTIME_OBSERVED: 0.8,
    Provenance.OTEL_TRACE_100: 0.8,
    Provenance.AST_INFERRED: 0.7,
    Provenance.OTEL_TRACE_10: 0.5,
    Provenance.OTEL_TRACE_1: 0.2,
}


SOURCE_PROVENANCES: Final = frozenset((Provenance.AST_RESOLVED.value, Provenance.AST_INFERRED.value))
"""How the edges of a source graph were observed; every other way belongs to the overlay."""
OVERLAY_PROVENANCES: Final = frozenset(one.value for one in Provenance) - SOURCE_PROVENANCES


def trace_provenance(observations: int) -> Provenance:
    """The tier of an edge seen in that many traces."""
    if observations >= 1000:
        return Provenance.OTEL_TRACE_1000
    if observations >= 100:
        return Provenance.OTEL_TRACE_100
    return Provenance.OTEL_TRACE_10 if observations >= 10 else Provenance.OTEL_TRACE_1


class Coverage(StrEnum):
    """Why the graph does not speak, or not fully, for a file."""

    FAILED = "failed"
    PARTIAL = "partial"
    BINARY = "binary"
    TOO_LARGE = "too_large"
    IGNORED = "ignored"
    VENDORED = "vendored"
    GENERATED = "generated"
    UNSUPPORTED = "unsupported"
    SYMLINK = "symlink"
    SUBMODULE = "submodule"
    LFS_POINTER = "lfs_pointer"


_Member = TypeVar("_Member", bound=StrEnum)


def member(kind: type[_Member], text: str) -> _Member:
    """The member of an enumeration that is spelled `text`, or a clear refusal."""
    try:
        return kind(text)
    except ValueError:
        raise InvalidNameError(f"{text[:40]!r} is not a known {kind.__name__}") from None
