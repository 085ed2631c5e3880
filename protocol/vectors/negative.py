"""All forgeries, each with the reason that it must be rejected for."""

import forgeries_of_encoding
import forgeries_of_history
import forgeries_of_proofs
import forgeries_of_records
import forgeries_of_statements
import forgeries_of_surplus
from forge import NEGATIVE

__all__ = [
    "NEGATIVE",
    "forgeries_of_encoding",
    "forgeries_of_history",
    "forgeries_of_proofs",
    "forgeries_of_records",
    "forgeries_of_statements",
    "forgeries_of_surplus",
]
