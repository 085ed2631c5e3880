"""The laws of incremental indexing: as right as from nothing, in any order, and no more work than what changed."""

from __future__ import annotations

import random

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from extract.helpers import REPO, plain, tree
from knowingd.extract.interface import united
from knowingd.extract.memory import State, index_tree, update
from knowingd.extract.python.language import Python

MODULES = [
    "pkg/__init__",
    "pkg/a",
    "pkg/b",
    "pkg/c",
    "pkg/sub/__init__",
    "pkg/sub/d",
    "pkg/sub/e",
    "tests/test_x",
    "run",
]
NAMES = ["alpha", "beta", "Gamma", "Delta", "eps"]


def _dotted(module: str) -> str:
    return module.removesuffix("/__init__").replace("/", ".")


@st.composite
def statements(draw: st.DrawFn) -> str:
    """A statement that reads or makes names which other modules may have."""
    other = _dotted(draw(st.sampled_from(MODULES)))
    name, second = draw(st.sampled_from(NAMES)), draw(st.sampled_from(NAMES))
    return draw(
        st.sampled_from(
            [
                f"from {other} import {name}",
                f"from {other} import *",
                f"import {other}",
                f"import {other} as {name}",
                f"from . import {other.rpartition('.')[2]}",
                f"from .{other.rpartition('.')[2]} import {name} as {second}",
                f"class {name}({second}):\n    def m(self): return self.n()\n    def n(self): return {second}()",
                f"class {name}:\n    x = {second}()\n    def n(self): self.y = {second}(); return self.y.m()",
                f"class {name}({other}.{second}):\n    def k(self): return super().m()",
                f"def {name}(): return {second}()",
                f"def {name}(x: {second}) -> '{second}':\n    x.m().n()\n    return x.y",
                f"def {name}(): return {other}.{second}().m()",
                f"def {name}():\n    v = {second}\n    for w in v(): w.m()\n    return v",
                f"{name} = {second}()",
                f"{name}.m().n()",
                f"{name}: {second} = None",
                f"__all__ = ['{name}', '{second}']",
                f"try:\n    from {other} import {name}\nexcept ImportError:\n    {name} = None",
                f"@{second}\ndef {name}(): yield {other}.{second}",
                f"with {name}() as {second}: {second}.m()",
            ]
        )
    )


SOURCES = st.lists(statements(), max_size=6).map("\n".join)
PATHS = st.sampled_from([f"{module}.py" for module in MODULES] + ["pkg/a.pyi", "pkg/sub/d.pyi", "other/f.py"])
MANIFESTS = st.sampled_from(
    [
        "[project]\nname='x'",
        "",
        "[project]\nname='x'\n[tool.setuptools]\npackages=['pkg']",
        "[tool.setuptools.packages.find]\nwhere=['pkg']",
    ]
)
TREES = st.dictionaries(PATHS, SOURCES, max_size=9)


def _files(sources: dict[str, str], manifest: str) -> dict[str, bytes]:
    return {"pyproject.toml": manifest.encode(), **{path: text.encode() for path, text in sources.items()}}


@given(st.lists(st.tuples(TREES, MANIFESTS), min_size=2, max_size=4))
@settings(max_examples=120, deadline=None)
def test_updating_equals_indexing_from_nothing(versions: list[tuple[dict[str, str], str]]) -> None:
    _, state = index_tree(REPO, _files(*versions[0]))
    for version in versions[1:]:
        files = _files(*version)
        updated = update(state, files)
        assert plain(updated) == plain(index_tree(REPO, files)[0])


@given(TREES, PATHS, SOURCES)
@settings(max_examples=150, deadline=None)
def test_one_edit_equals_indexing_from_nothing(sources: dict[str, str], path: str, text: str) -> None:
    _, state = index_tree(REPO, _files(sources, "[project]\nname='x'"))
    edited = _files({**sources, path: text}, "[project]\nname='x'")
    assert plain(update(state, edited)) == plain(index_tree(REPO, edited)[0])


@given(TREES, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_the_order_of_files_and_units_means_nothing(sources: dict[str, str], shuffle: random.Random) -> None:
    files = _files(sources, "[project]\nname='x'")
    paths = list(files)
    shuffle.shuffle(paths)
    expected, state = index_tree(REPO, {path: files[path] for path in paths})
    assert plain(expected) == plain(index_tree(REPO, files)[0])
    alone = [Python().linker(REPO, state).link(unit).records for unit in state.linked]
    assert plain(united(alone)) == plain(expected)


@given(TREES)
@settings(max_examples=60, deadline=None)
def test_units_contribute_disjoint_records_but_for_phantoms(sources: dict[str, str]) -> None:
    _, state = index_tree(REPO, _files(sources, "[project]\nname='x'"))
    seen: set[object] = set()
    for linked in state.linked.values():
        records = linked.records
        mine: list[object] = [node for node in records.nodes if node.kind != "external"]
        mine += [*set(records.edges), *set(records.aliases), *set(records.members), *records.facts]
        mine += [file.path for file in records.files]
        assert seen.isdisjoint(mine)
        seen.update(mine)


@given(TREES)
@settings(max_examples=40, deadline=None)
def test_summaries_survive_being_stored(sources: dict[str, str]) -> None:
    records, state = index_tree(REPO, _files(sources, "[project]\nname='x'"))
    stored = {path: msgpack.unpackb(msgpack.packb(summary)) for path, summary in state.summaries.items()}
    again = State(REPO, Python(), summaries=stored)
    linker = Python().linker(REPO, again)
    assert plain(united(linker.link(unit).records for unit in state.linked)) == plain(records)


BASE = {
    "app/__init__.py": "from .lib import Client",
    "app/lib.py": (
        "class Client:\n    def send(self): return self.reply()\n"
        "    def reply(self): return Reply()\nclass Reply:\n    def ok(self): print(0)"
    ),
    "app/use.py": "from app import Client\ndef f():\n    return Client().send().ok()",
    "app/far.py": "from app.use import f\ndef g():\n    f()",
    "app/apart.py": "def h(): ...",
}
EDITS = {
    "a comment": ({"app/lib.py": "# why\n" + BASE["app/lib.py"]}, {"app/lib"}),
    "a body": ({"app/lib.py": BASE["app/lib.py"].replace("print(0)", "x = 1; print(x)")}, {"app/lib"}),
    "a result": (
        {"app/lib.py": BASE["app/lib.py"].replace("return self.reply()", "return None")},
        {"app/lib", "app/use"},
    ),
    "a base": (
        {"app/lib.py": BASE["app/lib.py"].replace("class Client:", "class Client(Reply):")},
        {"app/lib", "app/use"},
    ),
    "a new function": ({"app/lib.py": BASE["app/lib.py"] + "\ndef new(): ..."}, {"app/lib"}),
    "a re-export": ({"app/__init__.py": "from .lib import Reply as Client"}, {"app", "app/use"}),
    "a file beside": ({"app/new.py": "x = 1"}, {"app/new"}),
}


@pytest.mark.parametrize("edit", EDITS)
def test_no_more_is_linked_again_than_looked_at(edit: str) -> None:
    change, expected = EDITS[edit]
    _, state = index_tree(REPO, tree(BASE))
    updated = update(state, tree({**BASE, **change}))
    assert plain(updated) == plain(index_tree(REPO, tree({**BASE, **change}))[0])
    assert state.relinked >= expected
    assert state.relinked - expected <= {"app/far"}  # its call passes through a result that may have changed
    assert "app/apart" not in state.relinked


def test_an_unchanged_tree_links_nothing_again() -> None:
    _, state = index_tree(REPO, tree(BASE))
    update(state, tree(BASE))
    assert state.relinked == set()


def test_the_extractor_id_is_stable_and_names_a_version() -> None:
    assert Python().extractor_id() == Python().extractor_id()
    assert len(Python().extractor_id()) == 32
