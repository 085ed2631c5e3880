"""Fixtures of more than one folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.cluster import Machine


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Callable[[str], Machine]]:
    """Makes nodes by name; their processes end with the test."""
    found: list[Machine] = []

    def make(name: str) -> Machine:
        found.append(Machine(tmp_path / name))
        return found[-1]

    yield make
    for one in found:
        one.close()
