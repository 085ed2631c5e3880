"""What names and receivers resolve to: each rule with the mistake that it avoids."""

from __future__ import annotations

import pytest

from extract.helpers import Indexed

LIB = """
    class Base:
        def run(self): ...
        def stop(self): ...

    class Client(Base):
        def __init__(self, url): self.url = url
        def send(self): return Reply()
        @classmethod
        def make(cls): return cls("x")
        @staticmethod
        def help(): ...
        @property
        def last(self): return Reply()
        def __enter__(self): return self
        def __iter__(self): return iter([Reply()])
        def __getitem__(self, key) -> "Reply": ...

    class Reply:
        def ok(self): ...

    def connect(): return Client("y")
    client = Client("z")
    LIMIT = 3
"""


def calls(source: str, body: str, **more: str) -> set[str]:
    """What the code of `app/main.py` calls, in a function of it."""
    code = Indexed({"app/__init__.py": "", "app/lib.py": LIB, "app/main.py": body, **more})
    return code.targets(source)


CASES = {
    "a constructor": ("from app.lib import Client\ndef f():\n    c = Client('a')\n    c.send()", "Client.send"),
    "an inherited method": ("from app.lib import Client\ndef f():\n    Client('a').run()", "Base.run"),
    "a chain of results": ("from app import lib\ndef f():\n    lib.connect().send().ok()", "Reply.ok"),
    "a module-level instance": ("from app.lib import client\ndef f():\n    client.send()", "Client.send"),
    "a class method as factory": ("from app.lib import Client\ndef f():\n    Client.make().send()", "Client.send"),
    "a static method": ("from app.lib import Client\ndef f():\n    Client.help()", "Client.help"),
    "a property": ("from app.lib import client\ndef f():\n    client.last.ok()", "Reply.ok"),
    "an annotated parameter": ("import app.lib\ndef f(c: 'app.lib.Client'):\n    c.send()", "Client.send"),
    "an optional": (
        "from typing import Optional\nfrom app.lib import Client\ndef f(c: Optional[Client] = None):\n    c.send()",
        "Client.send",
    ),
    "a union with a bar": ("from app.lib import Client\ndef f(c: Client | None):\n    c.send()", "Client.send"),
    "an element of a list": (
        "from app.lib import Client\ndef f(cs: list[Client]):\n    for c in cs: c.send()",
        "Client.send",
    ),
    "a value of a dictionary": (
        "from app.lib import Client\ndef f(cs: dict[str, Client]):\n    for k, c in cs.items(): c.send()",
        "Client.send",
    ),
    "a with statement": ("from app.lib import connect\ndef f():\n    with connect() as c: c.send()", "Client.send"),
    "an iteration": ("from app.lib import connect\ndef f():\n    for r in connect(): r.ok()", "Reply.ok"),
    "a subscript": ("from app.lib import connect\ndef f():\n    connect()['a'].ok()", "Reply.ok"),
    "unpacking": (
        "from app.lib import Client, Reply\ndef f():\n    a, b = Client('a'), Reply()\n    b.ok()",
        "Reply.ok",
    ),
    "a comprehension": (
        "from app.lib import Client\ndef f(cs: list[Client]):\n    return [c.send() for c in cs]",
        "Client.send",
    ),
    "a lambda": ("from app.lib import client\ndef f():\n    return lambda: client.send()", "Client.send"),
    "an f-string": ("from app.lib import client\ndef f():\n    return f'{client.send()}'", "Client.send"),
    "a closure": ("from app.lib import Client\ndef f():\n    c = Client('a')\n    def g(): c.send()\n    return g", ""),
    "isinstance": (
        "from app.lib import Client\ndef f(c):\n    if isinstance(c, Client):\n        c.send()",
        "Client.send",
    ),
    "a conditional expression": (
        "from app.lib import Client\ndef f(c=None):\n    (c or Client('a')).send()",
        "Client.send",
    ),
    "the walrus": ("from app.lib import Client\ndef f():\n    if c := Client('a'): c.send()", "Client.send"),
    "a renamed import": ("from app.lib import Client as C\ndef f():\n    C('a').send()", "Client.send"),
    "a relative import": ("from .lib import Client\ndef f():\n    Client('a').send()", "Client.send"),
    "a star import": ("from .lib import *\ndef f():\n    Client('a').send()", "Client.send"),
    "an import in a function": ("def f():\n    from app.lib import Client\n    Client('a').send()", "Client.send"),
    "a partial": (
        "from functools import partial\nfrom app.lib import Client\ndef f():\n    partial(Client, 'a')().send()",
        "Client.send",
    ),
    "a cast": (
        "from typing import cast\nfrom app.lib import Client\ndef f(x):\n    cast(Client, x).send()",
        "Client.send",
    ),
    "an awaited result": (
        "from app.lib import Client\nasync def g(): return Client('a')\nasync def f():\n    (await g()).send()",
        "Client.send",
    ),
    "a generator": (
        "from app.lib import Client\ndef g():\n    yield Client('a')\ndef f():\n    for c in g(): c.send()",
        "Client.send",
    ),
    "a context manager": (
        (
            "from contextlib import contextmanager\nfrom app.lib import Client\n"
            "@contextmanager\ndef g():\n    yield Client('a')\n"
            "def f():\n    with g() as c: c.send()"
        ),
        "Client.send",
    ),
    "an alias of a type": ("from app.lib import Client\nC = Client | None\ndef f(c: C):\n    c.send()", "Client.send"),
    "a type of a class": ("from app.lib import Client\ndef f(c: type[Client]):\n    c('a').send()", "Client.send"),
    "a callable": (
        "from typing import Callable\nfrom app.lib import Client\ndef f(c: Callable[[], Client]):\n    c().send()",
        "Client.send",
    ),
    "a loop": (
        (
            "from app.lib import Client\ndef f(n):\n    c = None\n"
            "    while n:\n        if c: c.send()\n        c = Client('a')"
        ),
        "Client.send",
    ),
    "a type variable's bound": (
        (
            "from typing import TypeVar\nfrom app.lib import Client\n"
            "T = TypeVar('T', bound=Client)\ndef f(c: T) -> T:\n    c.send()"
        ),
        "Client.send",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_receiver_is_typed_by(case: str) -> None:
    body, expected = CASES[case]
    source = "app/main:f" if expected else "app/main:f.<locals>.g"
    assert f"app/lib:{expected or 'Client.send'}" in calls(source, body)


NEVER = {
    "a parameter that shadows an import": "from app.lib import client\ndef f(client):\n    client.send()",
    "a local that shadows an import": "from app.lib import client\ndef f():\n    client = open('x')\n    client.send()",
    "a name of a class body": (
        "class A:\n    from app.lib import client\n    def f(self):\n        client.send()\ndef f():\n    A().f()"
    ),
    "a foreign class of the same name": "from other.lib import Client\ndef f():\n    Client('a').send()",
    "an untyped receiver": "from app.lib import Client\ndef f(c):\n    c.send()",
    "a comprehension's variable": "from app.lib import client\ndef f(xs):\n    return [client.send() for client in xs]",
    "a lambda's parameter": "from app.lib import client\ndef f():\n    return lambda client: client.send()",
    "a loop variable": "from app.lib import client\ndef f(xs):\n    for client in xs: client.send()",
    "an exception's name": (
        "from app.lib import client\ndef f():\n    try: pass\n    except ValueError as client: client.send()"
    ),
    "a value that was replaced": "from app.lib import Client\ndef f(x):\n    c = Client('a')\n    c = x\n    c.send()",
    "a pattern's name": "from app.lib import client\ndef f(x):\n    match x:\n        case [client]: client.send()",
    "a branch that leaves": (
        "from app.lib import Client\ndef f(x, y):\n    c = x\n    if y:\n"
        "        c = Client('a')\n        return c\n    c.send()"
    ),
    "a global that a function sets": (
        "from app.lib import Client\nc = None\ndef g():\n    c = Client('a')\ndef f():\n    c.send()"
    ),
}


@pytest.mark.parametrize("case", NEVER)
def test_never_bound_by(case: str) -> None:
    code = Indexed({"app/__init__.py": "", "app/lib.py": LIB, "app/main.py": NEVER[case]})
    targets = {target for source, target in code.edges("calls") if source.startswith("app/main:")}
    assert "app/lib:Client.send" not in targets
    assert {one for one in targets if one.endswith(("send", "/send"))} != set(), "the call was dropped"


def test_an_untyped_receiver_is_unresolved_and_not_dropped() -> None:
    assert calls("app/main:f", "def f(x):\n    x.send()") == {"unresolved://python/send"}


def test_a_path_out_of_the_repository_keeps_its_types() -> None:
    found = calls(
        "app/main:f",
        """
        from flask import Flask
        import numpy as np
        app = Flask(__name__)
        def f():
            app.route("/")
            np.array([1]).sum()
            with open("x") as file: file.read()
        """,
    )
    assert {"python://flask.Flask().route", "python://numpy.array", "python://numpy.array().sum"} <= found
    assert "python://builtins.open" in found


def test_a_variable_with_a_value_from_outside_is_no_reference() -> None:
    body = """
    import flask
    def f(rv):
        if isinstance(rv, tuple):
            rv, status = rv
        if isinstance(rv, flask.Response):
            keep(rv)
        return lambda: rv
    """
    code = Indexed({"app/__init__.py": "", "app/main.py": body})
    found = code.targets("app/main:f", "references")
    assert {"python://builtins.tuple", "python://flask.Response"} <= found
    assert not {one for one in found if one.endswith("()")}


def test_both_branches_of_a_conditional_import_are_candidates() -> None:
    body = "try:\n    import ujson as json\nexcept ImportError:\n    import json\ndef f():\n    json.loads('')"
    assert calls("app/main:f", body) == {"python://{ujson|json}.loads"}


def test_a_member_of_an_external_base_is_reached_through_it() -> None:
    body = """
    import threading, flask
    class A(threading.Thread):
        def f(self): self.start(); super().join()
    class B(flask.Flask, A):
        def f(self): self.route()
    """
    code = Indexed({"app/__init__.py": "", "app/main.py": body})
    assert code.targets("app/main:A.f") == {
        "python://builtins.super",
        "python://threading.Thread().start",
        "python://threading.Thread().join",
    } - {"python://builtins.super"}
    assert "python://{flask.Flask|threading.Thread}().route" in code.targets("app/main:B.f")


def test_names_are_certain_and_types_are_inferred() -> None:
    body = "from app.lib import Client, connect\ndef f(c: Client):\n    connect()\n    c.send()\n    Client.help()"
    code = Indexed({"app/__init__.py": "", "app/lib.py": LIB, "app/main.py": body})
    assert code.provenance("app/main:f", "app/lib:connect") == {"ast_resolved"}
    assert code.provenance("app/main:f", "app/lib:Client.help") == {"ast_resolved"}
    assert code.provenance("app/main:f", "app/lib:Client.send") == {"ast_inferred"}


def test_super_and_the_resolution_order() -> None:
    body = """
    class A:
        def m(self): ...
    class B(A):
        def m(self): super().m()
    class C(A):
        def m(self): super().m()
    class D(B, C):
        def m(self): super().m()
        def n(self): self.m()
    """
    code = Indexed({"app/__init__.py": "", "app/main.py": body})
    assert code.targets("app/main:D.m") == {"app/main:B.m"}
    assert code.targets("app/main:B.m") == {"app/main:A.m"}
    assert code.targets("app/main:D.n") == {"app/main:D.m"}
    assert ("app/main:D.m", "app/main:B.m") in code.edges("overrides")


def test_sites_are_at_the_called_name_in_bytes() -> None:
    code = Indexed({"m.py": "def g(a, b): ...\ndef f():\n    é = 'é'; g(1, 2)\n    x = [g(\n        *é)]\n"})
    assert code.sites("m:f", "m:g") == [("m.py", 3, 15, 2), ("m.py", 4, 9, -1)]


def test_decorators_defaults_and_bases_belong_to_the_scope_around() -> None:
    body = """
    def deco(x): return x
    def default(): ...
    class Base: ...
    @deco
    def f(a=default()): ...
    class C(Base):
        @deco
        def m(self): ...
    """
    code = Indexed({"m.py": body})
    assert "m:default" in code.targets("m:")
    assert code.edges("decorates") == {("m:f", "m:deco"), ("m:C.m", "m:deco")}
    assert code.edges("extends") == {("m:C", "m:Base")}


def test_annotations_hint_at_types_also_as_strings() -> None:
    body = "from typing import List\nclass A: ...\ndef f(a: 'List[A]', b: A = None) -> \"A\": ...\nx: A = A()\n"
    code = Indexed({"m.py": body})
    assert code.targets("m:f", "type_hint_of") == {"m:A", "python://typing.List"}
    assert code.targets("m:", "type_hint_of") == {"m:A"}


def test_fields_exceptions_environment_and_processes() -> None:
    body = """
    import os, subprocess
    class E(Exception): ...
    class A:
        x = 1
        def __init__(self): self.y = 2
        def f(self):
            print(self.x, self.y)
            subprocess.run([os.environ["A"]])
            if os.getenv("B"): raise E()
            raise ValueError
    """
    code = Indexed({"m.py": body})
    assert code.targets("m:A.f", "accesses_field") == {"m:A.x", "m:A.y"}
    assert code.targets("m:A.f", "throws") == {"m:E", "python://builtins.ValueError"}
    assert code.targets("m:A.f", "executes_process") == {"python://subprocess.run"}
    assert code.targets("m:A.f", "reads_env") == {"python://os.environ", "python://os.getenv"}


def test_tests_point_to_what_they_call_outside_of_tests() -> None:
    code = Indexed(
        {
            "app/__init__.py": "def run(): ...",
            "tests/util.py": "def helper(): ...",
            "tests/test_app.py": (
                "import app\nfrom tests.util import helper\ndef test_it():\n    helper()\n    app.run()"
            ),
        }
    )
    assert code.edges("tests") == {("tests/test_app:test_it", "app:run")}


def test_stubs_are_declarations_of_the_same_symbols() -> None:
    code = Indexed(
        {
            "app/__init__.py": "",
            "app/c.py": "class C:\n    def m(self): return _m()\ndef make(): return _make()",
            "app/c.pyi": "class C:\n    def m(self) -> C: ...\ndef make() -> C: ...",
            "app/use.py": "from app.c import make\ndef f():\n    make().m().m()",
        }
    )
    assert code.targets("app/use:f") == {"app/c:make", "app/c:C.m"}
    declared = [
        file.path for file in code.records.files for one in file.declarations if code.name(one.node) == "app/c:C"
    ]
    assert sorted(declared) == ["app/c.py", "app/c.pyi"]


def test_a_definition_in_both_branches_is_one_node_with_two_declarations() -> None:
    code = Indexed(
        {"m.py": "import sys\nif sys:\n    def f(): g()\nelse:\n    def f(): h()\ndef g(): ...\ndef h(): ..."}
    )
    assert code.targets("m:f") == {"m:g", "m:h"}
    assert code.sites("m:f", "m:h") == [("m.py", 5, 13, 0)]


def test_symbols_are_contained_and_members_know_their_class() -> None:
    code = Indexed({"m.py": "class A:\n    x = 1\n    def f(self):\n        def g(): ...\nB = 2"})
    assert code.edges("contains") == {
        ("m:", "m:A"),
        ("m:", "m:B"),
        ("m:A", "m:A.x"),
        ("m:A", "m:A.f"),
        ("m:A.f", "m:A.f.<locals>.g"),
    }
    assert code.edges("member_of") == {("m:A.x", "m:A"), ("m:A.f", "m:A")}
