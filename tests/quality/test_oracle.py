"""How the oracle's answers become truth, on hand-made symbols."""

from collections import Counter
from pathlib import Path

import pytest

from quality import definitions, fetch, pins
from quality.oracle import Owners, answer, document_calls
from quality.places import CallPlace, Imports
from quality.scip import Document, Occurrence, Symbol, parse_symbol

NO_IMPORTS = Imports(frozenset(), frozenset(), star=False)
KNOWN = Owners(
    {"pkg": "dist", "pkg.core": "dist"},
    {
        "dist": {
            "pkg.core.Thing": "class",
            "pkg.core.Thing.run": "method",
            "pkg.core.Thing.size": "property",
            "pkg.core.make": "function",
            "pkg.core.other": "function",
        }
    },
)


def symbol(path: str) -> Symbol:
    found = parse_symbol(f"scip-python python caller 1 {path}")
    assert found is not None
    return found


def ask(name: str, root: str | None, *paths: str, imported: Imports = NO_IMPORTS) -> tuple[str, str] | str | None:
    dropped: Counter[str] = Counter()
    place = CallPlace(1, 0, name, root)
    found = answer(place, [symbol(path) for path in paths], KNOWN, imported, dropped)
    return found or next(iter(dropped), None)


def test_targets_are_keyed_by_module_not_by_the_package_field() -> None:
    assert ask("make", None, "`pkg.core`/make().") == ("pkg.core.make", "dist")
    assert ask("Thing", "pkg", "`pkg.core`/Thing#") == ("pkg.core.Thing", "dist")


def test_the_standard_library_is_an_answer_without_a_package() -> None:
    assert ask("get", "d", "builtins/dict#get().") == ("builtins.dict.get", "")


@pytest.mark.parametrize("path", ["`pkg.core`/value.", "`pkg.core`/__init__:", "`pkg.core`/make().(a)"])
def test_variables_modules_and_parameters_are_no_answer(path: str) -> None:
    assert ask("value", None, path) is None


def test_two_targets_at_one_place_are_no_answer() -> None:
    assert ask("run", "x", "`pkg.core`/Thing#run().", "`pkg.core`/make().") == "several targets"


def test_calling_the_value_of_a_property_does_not_call_the_property() -> None:
    assert ask("size", "x", "`pkg.core`/Thing#size().") == "the value of a property is called"


def test_a_function_inside_a_method_is_not_taken_for_a_method() -> None:
    assert ask("run", None, "`pkg.core`/Thing#run().") == "a bare name cannot reach a method"


def test_a_bare_name_in_a_class_body_reaches_the_method() -> None:
    place = CallPlace(1, 0, "run", None, in_class_body=True)
    found = answer(place, [symbol("`pkg.core`/Thing#run().")], KNOWN, NO_IMPORTS, Counter())
    assert found == ("pkg.core.Thing.run", "dist")


def test_a_name_that_the_source_does_not_define_is_no_answer() -> None:
    assert ask("gone", "x", "`pkg.core`/Thing#gone().") == "not defined in the published source"


def test_an_import_under_another_name_is_an_answer() -> None:
    renamed = Imports(frozenset({("make", "build")}), frozenset({"build"}), star=False)
    assert ask("build", None, "`pkg.core`/make().", imported=renamed) == ("pkg.core.make", "dist")


def test_an_instance_variable_named_by_its_class_is_no_answer() -> None:
    assert ask("hook", "self", "`pkg.core`/Thing#") == "named unlike what is called"


def test_a_neighbour_of_a_star_import_is_put_right() -> None:
    imported = Imports(frozenset(), frozenset({"pkg"}), star=False)
    assert ask("other", "pkg", "`pkg.core`/make().", imported=imported) == ("pkg.core.other", "dist")
    assert ask("other", "self", "`pkg.core`/make().", imported=imported) == "named unlike what is called"
    assert ask("absent", "pkg", "`pkg.core`/make().", imported=imported) == "named unlike what is called"


def test_only_callees_of_call_expressions_count() -> None:
    source = b"from pkg.core import make\nx = make\nmake()\n"
    path = "scip-python python caller 1 `pkg.core`/make()."
    document = Document("a.py", tuple(Occurrence(line, at, at + 4, path, 0) for line, at in ((0, 21), (1, 4), (2, 0))))
    assert document_calls(document, source, KNOWN, Counter()) == [(3, 0, "pkg.core.make", "dist")]


def test_definitions_are_found_by_import_name() -> None:
    source = b"""
class A:
    @property
    def p(self): ...
    @functools.cached_property
    def q(self): ...
    def m(self):
        def hidden(): ...
    class B:
        def n(self): ...
if x:
    def f(): ...
else:
    try:
        def g(): ...
    finally:
        pass
"""
    assert {item.name: item.kind for item in definitions.of_source("m", source)} == {
        "m.A": "class",
        "m.A.p": "property",
        "m.A.q": "property",
        "m.A.m": "method",
        "m.A.B": "class",
        "m.A.B.n": "method",
        "m.f": "function",
        "m.g": "function",
    }


@pytest.mark.parametrize(
    ("path", "module"), [("a/__init__.py", "a"), ("a/b.py", "a.b"), ("a/b/__init__.pyi", "a.b"), ("six.py", "six")]
)
def test_modules_are_named_by_their_import_path(path: str, module: str) -> None:
    assert definitions.module_name(path) == module


def test_source_roots_are_found_by_what_is_installed() -> None:
    published = ["setup.py", "src/pkg/__init__.py", "src/pkg/a.py", "tests/pkg/a.py", "docs/a.py", "one.py"]
    installed = ["pkg/__init__.py", "pkg/a.py", "pkg/_generated.py", "one.py"]
    assert fetch.importable(installed, published) == {
        "pkg/__init__.py": "src/pkg/__init__.py",
        "pkg/a.py": "src/pkg/a.py",
        "one.py": "one.py",
    }


def test_installed_files_are_read_from_the_record(tmp_path: Path) -> None:
    record = tmp_path / "lib/python3.11/site-packages/My_Pkg-1.0.dist-info/RECORD"
    record.parent.mkdir(parents=True)
    record.write_text("my/a.py,,\nmy/b.so,,\n../../../bin/my.py,,\n", encoding="utf-8")
    assert fetch.installed_files(tmp_path, "my-pkg") == ["my/a.py"]
    with pytest.raises(FileNotFoundError, match="make the environment again"):
        fetch.installed_files(tmp_path, "absent")


def test_pins_and_environment_agree() -> None:
    chosen, installed = pins.load(), pins.environment()
    assert {name: installed.get(name) for name in chosen.packages} == chosen.packages
    assert len(chosen.pairs) == len(set(chosen.pairs)) >= 18
    assert {name for pair in chosen.pairs for name in pair} <= chosen.packages.keys()


def test_left_out_paths_cover_directories_and_files_but_not_namesakes() -> None:
    chosen = pins.Pins("1", {"a": "1"}, (), {"a": ("a/testing", "a/slow.py")})
    paths = ("a/testing/x.py", "a/slow.py", "a/testing2.py", "a/core.py")
    assert [chosen.asked("a", path) for path in paths] == [False, False, True, True]
    assert chosen.asked("b", "a/slow.py")


def test_a_pair_without_a_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pins.toml"
    path.write_text('scip_python = "1"\npairs = [["a", "b"]]\n[packages]\na = "1"\n', encoding="utf-8")
    with pytest.raises(ValueError, match="without a version: b"):
        pins.load(path)
