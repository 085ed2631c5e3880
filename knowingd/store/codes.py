"""Enumerations as small integers. The numbers stand in databases: members are only ever added at the end."""

from __future__ import annotations

from typing import Final

from knowing_protocol.vocabulary import SOURCE_PROVENANCES, EdgeType, NodeKind, Provenance

KINDS: Final = tuple(kind.value for kind in NodeKind)
EDGE_TYPES: Final = tuple(edge_type.value for edge_type in EdgeType)
PROVENANCES: Final = tuple(provenance.value for provenance in Provenance)

KIND_CODES: Final = {text: code for code, text in enumerate(KINDS)}
EDGE_TYPE_CODES: Final = {text: code for code, text in enumerate(EDGE_TYPES)}
PROVENANCE_CODES: Final = {text: code for code, text in enumerate(PROVENANCES)}

SOURCE, OVERLAY = 0, 1
LAYERS: Final = (SOURCE, OVERLAY)
LAYER_OF_PROVENANCE: Final = tuple(SOURCE if text in SOURCE_PROVENANCES else OVERLAY for text in PROVENANCES)
PROVENANCES_OF_LAYER: Final = tuple(
    tuple(code for code, owner in enumerate(LAYER_OF_PROVENANCE) if owner == layer) for layer in LAYERS
)
