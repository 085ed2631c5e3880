"""Files that nobody should have written: never an exception, never quadratic, a coverage entry where it is due."""

from __future__ import annotations

from time import process_time

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from knowing_protocol.vocabulary import Coverage

from extract.helpers import Indexed
from knowingd.extract.interface import Summary
from knowingd.extract.limits import MAX_FILE_BYTES
from knowingd.extract.python.language import Python
from knowingd.extract.words import words

PYTHON = Python()


def coverage(content: bytes) -> str:
    return str(PYTHON.summarize("m.py", content)["coverage"])


DEEP = {
    "parentheses": b"x = " + b"(" * 20_000 + b")" * 20_000,
    "calls": b"x = " + b"f(" * 5_000 + b")" * 5_000,
    "a chain": b"x = a" + b".b()" * 10_000,
    "subscripts": b"x = a" + b"[0]" * 10_000,
    "unary operators": b"x = " + b"-" * 20_000 + b"1",
    "binary operators": b"x = 1" + b" + y.z()" * 5_000,
    "lists": b"x = " + b"[" * 5_000 + b"]" * 5_000,
    "functions": b"".join(b" " * depth + b"def f():\n" for depth in range(400)) + b" " * 400 + b"pass\n",
    "classes": b"".join(b" " * depth + b"class C:\n" for depth in range(400)) + b" " * 400 + b"x = 1\n",
    "lambdas": b"f = " + b"lambda: " * 3_000 + b"1",
    "f-strings": b"x = " + b"f'{" * 200 + b"y" + b"}'" * 200,
    "annotations": b"x: " + b"list[" * 3_000 + b"int" + b"]" * 3_000,
    "variables": b"def f():\n" + b"".join(b" a%d = a%d\n" % (n + 1, n) for n in range(3_000)) + b" a3000.go()\n",
    "one line": b"x = 1; " * 50_000,
    "one name": b"x" * 1_000_000,
    "rebinding": b"def f():\n" + b" x = g()\n x.h()\n" * 4_000,
    "branches": b"def f():\n" + b" if y:\n  x = g()\n x.h()\n" * 3_000,
    "decorators": b"@d\n" * 5_000 + b"def f(): ...\n",
    "bases": b"class C(" + b"A, " * 5_000 + b"): ...\n",
    "parameters": b"def f(" + b", ".join(b"a%d" % n for n in range(5_000)) + b"): ...\n",
}


@pytest.mark.parametrize("shape", DEEP)
def test_depth_and_length_are_survived_in_time(shape: str) -> None:
    start = process_time()
    Indexed({"m.py": DEEP[shape]})
    assert process_time() - start < 20


def test_a_chain_of_classes_and_a_circle_of_classes_end() -> None:
    chain = "\n".join(f"class C{n + 1}(C{n}): ..." for n in range(300))
    code = Indexed(
        {"m.py": f"class C0:\n    def f(self): ...\n{chain}\nC300().f()\nclass A(B): ...\nclass B(A): ...\nA().x()"}
    )
    assert "m:" in {source for source, _ in code.edges("calls")}


def test_imports_in_a_circle_end() -> None:
    code = Indexed(
        {"a/__init__.py": "from b import *\nfrom b import x\nx()", "b/__init__.py": "from a import *\nfrom a import x"}
    )
    assert {target for _, target in code.edges("calls")} == {"unresolved://python/x"}


ENCODINGS = {
    "a BOM": b"\xef\xbb\xbfdef f(): g()\ndef g(): ...",
    "latin-1 by its cookie": b"# -*- coding: latin-1 -*-\nx = '\xe9'\ndef f(): g()\ndef g(): ...",
    "a cookie in the second line": b"#!/bin/sh\n# vim: fileencoding=cp1252 :\nx = '\x80'\ndef f(): g()\ndef g(): ...",
    "carriage returns alone": b"def f(): g()\rdef g(): ...\r",
    "carriage returns and line feeds": b"def f():\r\n    g()\r\ndef g(): ...\r\n",
    "tabs": b"def f():\n\tg()\ndef g():\n\tpass\n",
    "form feeds": b"\x0cdef f():\n    g()\n\x0cdef g(): ...\n",
    "Python 2": b"print 'x'\ndef f(): g()\ndef g(): ...\n",
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_code_is_read_with(encoding: str) -> None:
    code = Indexed({"m.py": ENCODINGS[encoding]})
    assert ("m:f", "m:g") in code.edges("calls")
    assert not code.records.coverage


BROKEN = {
    "NUL": b"def f(): g()\n\0\ndef g(): ...\n",
    "bytes that are no UTF-8": b"x = '\xff\xfe'\ndef f(): g()\ndef g(): ...\n",
    "a syntax error": b"def f(): g()\ndef g(): ...\nfor in in\nx = 1\ny = 2\nz = 3\nw = 4\nv = 5\nu = 6\n",
}


@pytest.mark.parametrize("defect", BROKEN)
def test_what_can_be_read_is_read_in_spite_of(defect: str) -> None:
    code = Indexed({"m.py": BROKEN[defect]})
    assert ("m:f", "m:g") in code.edges("calls")
    assert code.records.coverage == {"m.py": Coverage.PARTIAL}


def test_a_file_that_is_no_python_has_failed() -> None:
    assert coverage(b"<html>" + b"<p>}}{{ ((\n" * 100) in {"failed", "partial"}


def test_a_file_that_is_too_large_is_covered_and_not_read() -> None:
    assert coverage(b"x = 1\n" * (MAX_FILE_BYTES // 6 + 1)) == "too_large"
    code = Indexed({"m.py": b"x = 1\n" * (MAX_FILE_BYTES // 6 + 1), "n.py": "import m\nm.f()"})
    assert code.records.coverage == {"m.py": Coverage.TOO_LARGE}


def test_a_broken_manifest_is_covered_and_claims_nothing() -> None:
    code = Indexed({"pyproject.toml": b"[project\n", "app/__init__.py": "def f(): ..."}, manifest=False)
    assert code.records.coverage == {"pyproject.toml": Coverage.FAILED}
    assert not any(one.claimed for one in code.records.aliases)


WORDS = words(
    """
    def class f self ( ) [ ] { } : import from . * , = lambda yield return async await with as for in if else try except
    @ ' f'{ }' \\ # match case _ é := -> | global del type raise super() __all__ isinstance(f,self)
    1 ... not and ** print
    """
)
PIECES = st.sampled_from([*WORDS, *(f"{one} " for one in WORDS), "\n", "    ", "\t", "\r", "\0", '"""'])


@given(st.lists(PIECES, max_size=60))
@settings(max_examples=300, deadline=None)
def test_no_text_raises(pieces: list[str]) -> None:
    Indexed({"m.py": "".join(pieces).encode(), "n.py": b"from m import *\nimport m\nm.f().self()\nf.f()"})


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_no_bytes_raise(content: bytes) -> None:
    for path in ("m.py", "pyproject.toml", "setup.cfg", "setup.py"):
        summary: Summary = PYTHON.summarize(path, content)
        assert msgpack.unpackb(msgpack.packb(summary)) == summary
        PYTHON.keys(path, summary)
