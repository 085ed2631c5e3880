"""A pool keeps to its limit, and closes nothing that is in use."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from knowingd.store.filestate import SETTLED_AFTER, file_state
from knowingd.store.pool import Pool


class Thing:
    def __init__(self) -> None:
        self.open = True

    def close(self) -> None:
        assert self.open
        self.open = False


@given(seed=st.integers(0, 2**32), limit=st.integers(1, 4))
def test_no_more_than_the_limit_are_open_and_none_in_use_is_closed(seed: int, limit: int) -> None:
    random = Random(seed)
    pool: Pool[Thing] = Pool(limit)
    made: list[Thing] = []
    taken: list[Thing] = []

    def make() -> Thing:
        made.append(Thing())
        return made[-1]

    for _ in range(60):
        what = random.random()
        key = random.randrange(6)
        if what < 0.4:
            taken.append(pool.take(key, make))
        elif what < 0.6:
            assert pool.get(key, make).open
        elif what < 0.7:
            pool.discard(key)
        elif taken:
            pool.give_back(taken.pop(random.randrange(len(taken))))
        assert all(one.open for one in taken)
        assert sum(one.open for one in made) <= max(limit, len(set(map(id, taken))) + 1)
    pool.close()
    for one in taken:
        assert one.open
        pool.give_back(one)
    assert not any(one.open for one in made)


def test_what_was_used_longest_ago_is_closed_first() -> None:
    pool: Pool[Thing] = Pool(2)
    first, second = pool.get(1, Thing), pool.get(2, Thing)
    pool.get(1, Thing)
    pool.get(3, Thing)
    assert first.open
    assert not second.open


def test_lent_is_the_same_for_all_who_borrow_it() -> None:
    pool: Pool[Thing] = Pool(1)
    with ExitStack() as stack:
        lent = {id(stack.enter_context(pool.lend("a", Thing))) for _ in range(3)}
    assert len(lent) == 1


def test_a_look_at_files_that_were_changed_a_moment_ago_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "graph.db"
    path.write_bytes(b"one")
    look = file_state(path)
    assert not file_state(path).is_as_at(look.text, look.at)
    later = time.time_ns() + 2 * SETTLED_AFTER
    assert file_state(path).is_as_at(look.text, later)
    path.write_bytes(b"two!")
    assert not file_state(path).is_as_at(look.text, later)


def test_an_empty_journal_is_as_good_as_none(tmp_path: Path) -> None:
    path = tmp_path / "graph.db"
    path.write_bytes(b"one")
    look = file_state(path)
    (tmp_path / "graph.db-wal").write_bytes(b"")
    assert file_state(path).text == look.text
    (tmp_path / "graph.db-wal").write_bytes(b"frame")
    assert file_state(path).text != look.text
    assert file_state(tmp_path / "nothing.db").text == ""
