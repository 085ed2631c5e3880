"""Indexing into a store: what changed is enough, and leads to the same graph as everything."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from knowing_protocol.graph import Graph

from knowingd.config import Home
from knowingd.extract.memory import index_tree
from knowingd.node import Node, Options
from knowingd.query.callers import callers
from knowingd.query.symbols import meant
from knowingd.source import Location
from knowingd.store.records import read_records

FILES = {
    "pyproject.toml": '[project]\nname = "shop"\nversion = "1"\n[tool.setuptools]\npackages = ["shop"]\n',
    "shop/__init__.py": "from .cart import Cart\nfrom .prices import *\n",
    "shop/cart.py": (
        "import hashlib\nfrom .prices import total, Price\n\n\n"
        "class Base:\n    def close(self):\n        return 1\n\n\n"
        "class Cart(Base):\n    def __init__(self):\n        self.price = Price()\n\n"
        "    def sum(self):\n        return total(self.price.value())\n\n"
        "    def digest(self):\n        return hashlib.md5(b'')\n"
    ),
    "shop/prices.py": "class Price:\n    def value(self):\n        return 3\n\n\ndef total(x):\n    return x\n",
    "shop/use.py": (
        "from shop import Cart, total\n\n\ndef main():\n    cart = Cart()\n    cart.close()\n"
        "    return total(cart.sum())\n"
    ),
    "tests/test_cart.py": "from shop.cart import Cart\n\n\ndef test_sum():\n    assert Cart().sum() == 3\n",
    "broken.py": "def f(:\n    pass\n",
    "README.md": "# shop\n",
}
EDITS = {
    "shop/cart.py": [
        ("class Cart(Base)", "class Cart"),
        ("def close", "def shut"),
        ("from .prices import total, Price", "from .prices import Price, total as total"),
        ("return total(", "return print("),
    ],
    "shop/prices.py": [("def total", "def sum_up"), ("class Price", "class Cost"), ("return 3", "return 4")],
    "shop/__init__.py": [("from .cart import Cart\n", ""), ("from .prices import *", "from .prices import total")],
    "shop/use.py": [("cart.close()", "cart.digest()"), ("from shop import", "from shop.cart import")],
    "pyproject.toml": [('packages = ["shop"]', 'packages = ["shop", "tests"]')],
}


def write(root: Path, files: dict[str, str]) -> None:
    for path in [one for one in root.rglob("*") if one.is_file()]:
        if path.relative_to(root).as_posix() not in files:
            path.unlink()
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def edited(files: dict[str, str], random: Random) -> dict[str, str]:
    """Somebody worked on it: texts change and change back, files move, come and go."""
    new = dict(files)
    for _ in range(random.randrange(1, 4)):
        what = random.random()
        name = random.choice(sorted(new))
        if what < 0.6 and name in EDITS:
            old, fresh = random.choice(EDITS[name])
            new[name] = new[name].replace(old, fresh) if old in new[name] else new[name].replace(fresh, old)
        elif what < 0.75:
            new[f"shop/extra{random.randrange(3)}.py"] = "from shop.prices import total\n\n\ndef go():\n    total(1)\n"
        elif what < 0.85:
            missing = [one for one in FILES if one not in new]
            if missing:
                new[missing[0]] = FILES[missing[0]]
        elif len(new) > 3:
            text = new.pop(name)
            if random.random() < 0.5:
                new[f"shop/moved_{random.randrange(3)}.py"] = text
    return new


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node(Home(tmp_path / "home")) as found:
        yield found


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6))
def test_indexing_what_changed_gives_the_graph_of_the_whole_tree(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    random = Random(seed)
    root = tmp_path_factory.mktemp("tree") / "shop"
    root.mkdir()
    files = dict(FILES)
    write(root, files)
    with Node(Home(tmp_path_factory.mktemp("home"))) as node:
        node.add(Location(path=root), options=Options())
        for _ in range(4):
            files = edited(files, random)
            write(root, files)
            row = node.find("shop")
            node.index(row, options=Options())
            expected, _ = index_tree(row.url, {name: text.encode() for name, text in files.items()})
            with node.repository(row).read() as session:
                found = read_records(session, 0)
            expected.coverage = found.coverage  # what no language reads is the driver's to tell
            assert Graph(row.url, found).root == Graph(row.url, expected).root
            report = node.fsck()
            assert report["ok"], report
            before = node.log("shop")[0]["snapshot"]
            node.index(row, options=Options(full=True))
            assert node.log("shop")[0]["snapshot"] == before


def test_only_changed_files_are_read(node: Node, tmp_path: Path) -> None:
    root = tmp_path / "shop"
    root.mkdir()
    write(root, FILES)
    first = node.add(Location(path=root), options=Options())
    assert first.parsed == 7
    assert node.add(Location(path=root), options=Options()).parsed == 0
    assert node.store.size() == 1
    write(root, FILES | {"shop/use.py": FILES["shop/use.py"] + "\n"})
    assert node.index(node.find("shop"), options=Options()).parsed == 1


def test_jobs_and_their_number_change_nothing(tmp_path: Path) -> None:
    root = tmp_path / "many"
    root.mkdir()
    files = {f"pkg/m{number}.py": f"from pkg.m{number // 2} import f{number // 2}\n\n\ndef f{number}():\n"
             f"    f{number // 2}()\n" for number in range(120)}  # fmt: skip
    write(root, files | {"pkg/__init__.py": ""})
    roots = set()
    for jobs in (1, 2, 3):
        with Node(Home(tmp_path / f"home{jobs}")) as node:
            roots.add(node.add(Location(path=root), options=Options(jobs=jobs)).snapshot)
    assert len(roots) == 1


def test_a_file_that_does_not_parse_is_covered_as_partial_and_the_rest_is_indexed(node: Node, tmp_path: Path) -> None:
    root = tmp_path / "shop"
    root.mkdir()
    write(root, FILES)
    node.add(Location(path=root), options=Options())
    with node.repository(node.find("shop")).read() as session:
        coverage = {path: reason for _, path, reason in session.coverage(0)}
    assert coverage["README.md"] == "unsupported"
    assert coverage["broken.py"] in {"partial", "failed"}
    assert "shop/cart.py" not in coverage


def test_a_library_that_comes_and_goes_changes_answers_and_not_its_consumers_roots(node: Node, tmp_path: Path) -> None:
    library, consumer = tmp_path / "lib", tmp_path / "app"
    for root in (library, consumer):
        root.mkdir()
    write(library, {"pyproject.toml": '[project]\nname = "lib"\n', "lib/__init__.py": "from ._core import Client\n",
                    "lib/_core.py": "class Client:\n    def send(self):\n        pass\n"})  # fmt: skip
    write(consumer, {"app.py": "import lib\n\n\ndef go():\n    lib.Client().send()\n"})
    node.add(Location(path=consumer), options=Options())
    before = node.log("app")[0]["snapshot"]
    node.add(Location(path=library), options=Options())
    with node.scope() as scope:
        (symbol,) = meant("lib.Client.send", scope)
        (use,) = callers(symbol, scope, ["calls"]).uses
        assert (use.symbol.name, use.via, use.places[0]) == ("go", "python://lib.Client().send", ("app.py", 5, 17))
    node.remove("lib")
    with node.scope() as scope:
        assert all(one.repo != "local/lib" for one in meant("go", scope))
    assert node.log("app")[0]["snapshot"] == before
    write(library, {"pyproject.toml": '[project]\nname = "lib"\n', "lib/__init__.py": "class Client:\n    pass\n"})
    node.add(Location(path=library), options=Options())
    with node.scope() as scope, pytest.raises(Exception, match=r"no symbol|should define"):
        meant("python://lib.Client.send", scope)
    assert node.log("app")[0]["snapshot"] == before


def test_a_url_is_mirrored_and_fetched_again_under_the_name_that_was_given(node: Node, tmp_path: Path) -> None:
    root = tmp_path / "shop"
    root.mkdir()
    write(root, FILES)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(root)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "one"], check=True)
    first = node.add(Location(url=root.as_uri()), url="github.com/acme/shop", options=Options())
    assert first.repo == "github.com/acme/shop"
    (root / "shop/use.py").write_text("")
    subprocess.run([*git, "commit", "-q", "-am", "two"], check=True)
    row = node.find("shop")
    assert node.index(row, options=Options()).commit == first.commit
    again = node.index(row, fetch=True, options=Options())
    assert again.commit != first.commit
    assert again.parsed == 1


def test_a_commit_is_read_and_not_the_work_tree(node: Node, tmp_path: Path) -> None:
    root = tmp_path / "shop"
    root.mkdir()
    write(root, FILES)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(root)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "one"], check=True)
    first = node.add(Location(path=root), options=Options())
    (root / "shop/use.py").write_text("")
    again = node.add(Location(path=root), options=Options())
    assert again.snapshot == first.snapshot
    assert len(again.commit) == 40
