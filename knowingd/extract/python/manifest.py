"""Manifests of Python projects: `pyproject.toml`, `setup.cfg`, `setup.py`. Read, never run; literals only.

A manifest's summary says under which directories its packages lie. `roots` are pairs of a directory, relative to the
manifest, and the dotted prefix of what lies in it; `packages` names the top packages where they are listed; `discover`
asks for what setuptools would find.
"""

from __future__ import annotations

import configparser
import re
import tomllib
from typing import Any, Final

from knowing_protocol.hashing import content_hash
from tree_sitter import Node

from knowingd.extract.interface import Summary
from knowingd.extract.limits import MAX_FILE_BYTES
from knowingd.extract.python.syntax import decoded, parse, read

FILES: Final = frozenset({"pyproject.toml", "setup.cfg", "setup.py"})
_REQUIREMENT: Final = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_LITERAL: Final = re.compile(r"""[rRuU]?(\"\"\"|'''|"|')(.*)\1""", re.DOTALL)


def is_manifest(path: str) -> bool:
    """Whether a path is one of the manifests that are read."""
    return path.rpartition("/")[2] in FILES


def summarize_manifest(path: str, content: bytes) -> Summary:
    """The summary of a manifest; of `setup.py`, only this part of it."""
    name = path.rpartition("/")[2]
    found: dict[str, Any] = {"name": "", "roots": [], "packages": None, "discover": False, "needs": []}
    broken = len(content) > MAX_FILE_BYTES
    if not broken:
        try:
            if name == "pyproject.toml":
                found |= _pyproject(tomllib.loads(content.decode("utf-8-sig")))
            elif name == "setup.cfg":
                found |= _setup_cfg(content.decode("utf-8-sig"))
            else:
                found |= _setup_py(content)
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError, configparser.Error):
            broken = True
    found["needs"] = sorted(set(found["needs"]))
    return {
        "kind": "manifest",
        "hash": content_hash(content),
        "coverage": "failed" if broken and name != "setup.py" else "",
        "manifest": found,
    }


def normalized(requirement: str) -> str:
    """The name of a distribution as package indexes compare it, from a requirement."""
    match = _REQUIREMENT.match(requirement)
    return re.sub(r"[-_.]+", "-", match[1]).lower() if match else ""


def _clean(directory: object) -> str:
    parts = [part for part in str(directory).replace("\\", "/").split("/") if part not in {"", "."}]
    return "" if ".." in parts else "/".join(parts)


def _texts(value: object) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def _pyproject(data: dict[str, Any]) -> dict[str, Any]:
    project = data.get("project", {})
    tools = data.get("tool", {})
    needs = [normalized(one) for one in _texts(project.get("dependencies"))]
    for extra in project.get("optional-dependencies", {}).values():
        needs += [normalized(one) for one in _texts(extra)]
    poetry = tools.get("poetry", {})
    needs += [normalized(one) for one in poetry.get("dependencies", {}) if one != "python"]
    found: dict[str, Any] = {"name": normalized(str(project.get("name") or poetry.get("name") or "")), "needs": needs}
    roots, packages = _declared(tools, poetry)
    declares = bool(project.get("name") or poetry or tools.get("setuptools") or tools.get("flit"))
    if roots or packages:
        return {**found, "roots": roots, "packages": packages, "discover": False}
    return {**found, "discover": declares or "build-system" in data}


def _declared(tools: dict[str, Any], poetry: dict[str, Any]) -> tuple[list[list[str]], list[str] | None]:
    """What build backends have in their tables, each in its own way."""
    roots: list[list[str]] = []
    packages: list[str] = []
    setuptools = tools.get("setuptools", {})
    directories = setuptools.get("package-dir", {})
    listed = setuptools.get("packages")
    if isinstance(listed, list):
        packages += [one.partition(".")[0] for one in _texts(listed)]
    elif isinstance(listed, dict):
        where = _texts(listed.get("find", {}).get("where")) if isinstance(listed.get("find"), dict) else []
        roots += [[_clean(one), ""] for one in where]
    roots += [[_clean(directory), str(prefix)] for prefix, directory in directories.items()]
    packages += _texts(setuptools.get("py-modules"))
    for one in poetry.get("packages", []) if isinstance(poetry.get("packages"), list) else []:
        if isinstance(one, dict) and isinstance(one.get("include"), str):
            roots.append([_clean(one.get("from", "")), ""])
            packages.append(_clean(one["include"]).partition("/")[0])
    hatch = tools.get("hatch", {}).get("build", {})
    wheel = hatch.get("targets", {}).get("wheel", {})
    sources = {_clean(one) for one in _texts(wheel.get("sources")) + _texts(hatch.get("sources"))}
    roots += [[one, ""] for one in sorted(sources)]
    for one in _texts(wheel.get("packages")) or _texts(hatch.get("packages")) or _texts(wheel.get("only-include")):
        if _clean(one) in sources:
            continue
        parent, _, last = _clean(one).rpartition("/")
        roots.append([parent, ""])
        packages.append(last.removesuffix(".py"))
    for table, key in (("uv", "build-backend"), ("pdm", "build"), ("maturin", "")):
        options = tools.get(table, {})
        options = options.get(key, {}) if key else options
        root = options.get("module-root", options.get("package-dir", options.get("python-source")))
        if isinstance(root, str):
            roots.append([_clean(root), ""])
    module = tools.get("flit", {}).get("module", {}).get("name")
    if isinstance(module, str):
        packages.append(module.partition(".")[0])
    distinct = sorted({tuple(one) for one in roots})
    return [list(one) for one in distinct], sorted(set(packages)) or None


def _setup_cfg(text: str) -> dict[str, Any]:
    parser = configparser.RawConfigParser(strict=False)
    parser.read_string(text)
    needs = [normalized(one) for one in parser.get("options", "install_requires", fallback="").splitlines()]
    found: dict[str, Any] = {
        "name": normalized(parser.get("metadata", "name", fallback="")),
        "needs": [one for one in needs if one],
    }
    roots = [
        [_clean(value.strip()), prefix.strip()]
        for prefix, marker, value in (
            line.partition("=") for line in parser.get("options", "package_dir", fallback="").splitlines()
        )
        if marker
    ]
    where = parser.get("options.packages.find", "where", fallback="").strip()
    if where:
        roots.append([_clean(where), ""])
    listed = parser.get("options", "packages", fallback="").split()
    packages = sorted({one.partition(".")[0] for one in listed if one.replace(".", "").isidentifier()})
    packages += parser.get("options", "py_modules", fallback="").split()
    declares = parser.has_section("options") or bool(found["name"])
    return {**found, "roots": roots, "packages": packages or None, "discover": declares and not (roots or packages)}


def _setup_py(content: bytes) -> dict[str, Any]:
    source = read(content)
    _, captures, _ = parse(source)
    for node in captures.get("callee", ()):
        called = source.text[node.start_byte : min(node.end_byte, node.start_byte + 100)]
        if called.rpartition(".")[2] == "setup" and node.parent is not None:
            arguments = node.parent.child_by_field_name("arguments")
            if arguments is not None:
                return _setup_call(_Literals(source.text), arguments)
    return {}


def _setup_call(literals: _Literals, arguments: Node) -> dict[str, Any]:
    given: dict[str, Node] = {}
    for one in arguments.named_children:
        name, value = one.child_by_field_name("name"), one.child_by_field_name("value")
        if one.type == "keyword_argument" and name is not None and value is not None:
            given[literals.cut(name)] = value
    roots: list[list[str]] = []
    packages: list[str] = []
    directory = given.get("package_dir")
    if directory is not None and directory.type == "dictionary":
        for pair in directory.named_children:
            key, value = pair.child_by_field_name("key"), pair.child_by_field_name("value")
            prefix, where = literals.text(key), literals.text(value)
            if prefix is not None and where is not None:
                roots.append([_clean(where), prefix])
    listed = given.get("packages")
    if listed is not None:
        if listed.type == "call":
            where = literals.argument(listed, "where")
            if where is not None and not any(prefix == "" for _, prefix in roots):
                roots.append([_clean(where), ""])
        else:
            packages += [one.partition(".")[0] for one in literals.texts(listed)]
    packages += literals.texts(given.get("py_modules"))
    return {
        "name": normalized(literals.text(given.get("name")) or ""),
        "needs": [normalized(one) for one in literals.texts(given.get("install_requires"))],
        "roots": roots,
        "packages": sorted(set(packages)) or None,
        "discover": not roots and not packages,
    }


class _Literals:
    """Strings and lists of strings, as they stand in a file."""

    def __init__(self, text: str) -> None:
        self._text = text

    def cut(self, node: Node) -> str:
        """The text of a node."""
        return decoded(self._text[node.start_byte : node.end_byte])

    def text(self, node: Node | None) -> str | None:
        """The value of a string literal."""
        if node is None or node.type != "string":
            return None
        match = _LITERAL.fullmatch(self.cut(node))
        return match[2] if match else None

    def texts(self, node: Node | None) -> list[str]:
        """The strings of a list, tuple or set."""
        if node is None or node.type not in {"list", "tuple", "set"}:
            return []
        found = [self.text(one) for one in node.named_children]
        return [one for one in found if one is not None]

    def argument(self, call: Node, keyword: str) -> str | None:
        """The first positional argument of a call, or the one with a name."""
        arguments = call.child_by_field_name("arguments")
        for one in arguments.named_children if arguments is not None else ():
            if one.type == "keyword_argument":
                name = one.child_by_field_name("name")
                if name is not None and self.cut(name) == keyword:
                    return self.text(one.child_by_field_name("value"))
            elif one.type == "string":
                return self.text(one)
        return None
