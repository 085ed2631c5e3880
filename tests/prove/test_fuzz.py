"""A short run of `make fuzz-bundles`."""

from __future__ import annotations

import pytest
from prove import fuzz


@pytest.mark.parametrize("seed", range(5))
def test_no_change_of_a_bundle_is_accepted_with_another_statement(seed: int) -> None:
    found = fuzz.run(1_000, seed)
    assert found.tried == 1_000
    assert len(found.codes) > 40  # the changes get past the seal, and deep into the checks
