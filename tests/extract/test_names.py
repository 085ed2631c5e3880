"""What a repository publishes, and how another one finds it."""

from __future__ import annotations

import pytest

from extract.helpers import Indexed, shown

OTHER = "example.org/acme/lib"


def test_reexports_are_published_under_every_name() -> None:
    code = Indexed(
        {
            "app/__init__.py": "from .core import Engine as E, helper\nfrom json import loads\n__all__ = ['E']",
            "app/core.py": "class Engine: ...\ndef helper(): ...\n_private = 1",
        }
    )
    names = code.aliases()
    assert names["app.E"] == names["app.core.Engine"] == {"app/core:Engine"}
    assert names["app.loads"] == {"python://json.loads"}
    assert names["app.core._private"] == {"app/core:_private"}
    assert names["app"] == {"app:"}


def test_an_attribute_goes_before_a_submodule_of_its_name() -> None:
    code = Indexed({"app/__init__.py": "from .run import run", "app/run.py": "def run(): ..."})
    assert code.aliases()["app.run"] == {"app/run:run"}
    assert code.aliases()["app.run.run"] == {"app/run:run"}


def test_star_imports_follow_the_list_of_names() -> None:
    code = Indexed(
        {
            "app/__init__.py": "from .a import *\nfrom .b import *\nfrom outside import *",
            "app/a.py": "__all__ = ['_x']\ndef _x(): ...\ndef y(): ...",
            "app/b.py": "def z(): ...\ndef _w(): ...",
        }
    )
    names = code.aliases()
    assert names["app._x"] == {"app/a:_x"}
    assert names["app.z"] == {"app/b:z"}
    assert "app.y" not in names
    assert "app._w" not in names
    assert code.facts("app:").stars == ("python://outside",)


LAYOUTS = {
    "src": ({"src/pkg/__init__.py": "def f(): ...", "tests/test_x.py": ""}, "pkg.f"),
    "flat": ({"pkg/__init__.py": "def f(): ...", "docs/conf.py": ""}, "pkg.f"),
    "a namespace package": ({"src/ns/pkg/__init__.py": "def f(): ..."}, "ns.pkg.f"),
    "setup.cfg": (
        {
            "setup.cfg": "[options]\npackage_dir =\n    = lib\npackages = find:\n[options.packages.find]\nwhere = lib",
            "lib/pkg/__init__.py": "def f(): ...",
        },
        "pkg.f",
    ),
    "setup.py": (
        {
            "setup.py": (
                "from setuptools import setup, find_packages\n"
                "setup(name='x', package_dir={'': 'lib'}, packages=find_packages('lib'))"
            ),
            "lib/pkg/__init__.py": "def f(): ...",
        },
        "pkg.f",
    ),
    "a directory for one package": (
        {
            "setup.py": "import setuptools\nsetuptools.setup(packages=['pkg'], package_dir={'pkg': 'code'})",
            "code/__init__.py": "def f(): ...",
        },
        "pkg.f",
    ),
    "poetry": (
        {
            "pyproject.toml": "[tool.poetry]\nname = 'x'\npackages = [{include = 'pkg', from = 'lib'}]",
            "lib/pkg/__init__.py": "def f(): ...",
        },
        "pkg.f",
    ),
    "hatch": (
        {
            "pyproject.toml": "[project]\nname='x'\n[tool.hatch.build.targets.wheel]\npackages = ['lib/pkg']",
            "lib/pkg/__init__.py": "def f(): ...",
        },
        "pkg.f",
    ),
    "hatch sources": (
        {
            "pyproject.toml": (
                "[project]\nname='x'\n[tool.hatch.build.targets.wheel]\nonly-include = ['src']\nsources = ['src']"
            ),
            "src/pkg/__init__.py": "def f(): ...",
        },
        "pkg.f",
    ),
    "flit in src": (
        {
            "pyproject.toml": "[project]\nname='x'\n[tool.flit.module]\nname = 'pkg'",
            "src/pkg/__init__.py": "def f(): ...",
        },
        "pkg.f",
    ),
    "several projects": (
        {
            "one/pyproject.toml": "[project]\nname='one'",
            "one/src/pkg/__init__.py": "def f(): ...",
            "two/setup.py": "from setuptools import setup\nsetup(name='two')",
            "two/other/__init__.py": "",
        },
        "pkg.f",
    ),
    "one module": (
        {"setup.py": "from setuptools import setup\nsetup(py_modules=['pkg'])", "pkg.py": "def f(): ..."},
        "pkg.f",
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_roots_are_found_in(layout: str) -> None:
    files, name = LAYOUTS[layout]
    manifest = not any(path.rpartition("/")[2] in {"pyproject.toml", "setup.py", "setup.cfg"} for path in files)
    code = Indexed(files, manifest=manifest)
    assert name in code.aliases()
    assert all(one.claimed for one in code.records.aliases)


def test_without_a_manifest_nothing_is_claimed() -> None:
    code = Indexed({"pkg/__init__.py": "def f(): ..."}, manifest=False)
    assert code.aliases()["pkg.f"] == {"pkg:f"}
    assert not any(one.claimed for one in code.records.aliases)


def test_names_of_the_standard_library_are_published_and_not_claimed() -> None:
    code = Indexed({"src/dataclasses.py": "def dataclass(): ..."})
    assert {one.claimed for one in code.records.aliases} == {False}


def test_a_local_directory_does_not_shadow_the_standard_library() -> None:
    code = Indexed(
        {"app/__init__.py": "import logging\nlogging.info('x')", "email/notes.py": "x = 1", "logging/x.py": ""}
    )
    assert code.targets("app:") == {"python://logging.info"}


def test_scripts_find_their_neighbours_and_miss_what_is_not_there() -> None:
    code = Indexed({"tools/a.py": "import b, c\nb.f()\nc.g()", "tools/b.py": "def f(): ..."}, manifest=False)
    assert code.targets("tools/a:") == {"tools/b:f", "python://c.g"}


def test_a_missing_module_below_an_own_root_stays_external() -> None:
    code = Indexed({"app/__init__.py": "from ._speed import fast\nfrom app._other import g\nfast()\ng()"})
    assert code.targets("app:") == {"python://app._speed.fast", "python://app._other.g"}


def library() -> Indexed:
    return Indexed(
        {
            "lib/__init__.py": "from .client import Client, make",
            "lib/client.py": """
            class _Hidden:
                def go(self): ...
            class Base:
                def close(self): ...
                def __enter__(self): return self
            class Client(Base):
                def __init__(self): self.hidden = _Hidden()
                def send(self) -> "Client": ...
                @property
                def inner(self): return self.hidden
            def make(): return Client()
            default = make()
            Alias = Client
            """,
        },
        OTHER,
    )


WALKS = {
    "lib.make().send": "lib/client:Client.send",
    "lib.Client().send().close": "lib/client:Base.close",
    "lib.Client().hidden.go": "lib/client:_Hidden.go",
    "lib.Client().inner.go": "lib/client:_Hidden.go",
    "lib.client.default.send": "lib/client:Client.send",
    "lib.make().__enter__().close": "lib/client:Base.close",
    "lib.client.make": "lib/client:make",
    "lib.client.Alias().send": "lib/client:Client.send",
}


@pytest.mark.parametrize("path", WALKS)
def test_the_walk_finds(path: str) -> None:
    outcome = library().walk(f"python://{path}")
    assert {shown(one) for one in outcome.definitions} == {WALKS[path]}


def test_a_subclass_in_another_repository_inherits() -> None:
    app = Indexed(
        {
            "app/__init__.py": (
                "import lib\nclass Mine(lib.Client):\n    def f(self): self.close()\ndef make(): return Mine()"
            )
        }
    )
    assert app.targets("app:Mine.f") == {"python://lib.Client().close"}
    outcome = app.walk("python://app.make().send", library())
    assert {shown(one) for one in outcome.definitions} == {"lib/client:Client.send"}


def test_facts_say_where_they_are_not_all() -> None:
    code = Indexed(
        {
            "m.py": (
                "class A: ...\ndef f(x):\n    if x: return A()\n"
                "    return x\ndef g(): return A()\nclass B(A, f(1)): ..."
            )
        }
    )
    assert code.facts("m:f").partial == ("returns",)
    assert code.facts("m:g").partial == ()
    assert code.facts("m:B").partial == ("bases",)
