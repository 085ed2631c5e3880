"""Python behind the interface of all languages."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from typing import Final

from knowing_protocol.hashing import tagged

from knowingd.extract import limits
from knowingd.extract.interface import Linker, Summary, View
from knowingd.extract.python.digests import keys_of
from knowingd.extract.python.linker import PythonLinker
from knowingd.extract.python.manifest import is_manifest, summarize_manifest
from knowingd.extract.python.modules import ROOTS_KEY, Modules, is_source, unit_keys, units_of
from knowingd.extract.python.summary import summarize

VERSION: Final = "2"  # raise it with every change of what a file or tree means


class Python:
    """The language."""

    name = "python"

    def handles(self, path: str) -> bool:
        """See `Language`."""
        return is_source(path) or is_manifest(path)

    def extractor_id(self) -> bytes:
        """See `Language`."""
        bounds = sorted((name, value) for name, value in vars(limits).items() if name.startswith("MAX_"))
        parsers = (version("tree-sitter"), version("tree-sitter-python"))
        return tagged("extractor", "python", VERSION, *parsers, *(f"{name}={value}" for name, value in bounds))

    def summarize(self, path: str, content: bytes) -> Summary:
        """See `Language`."""
        if is_source(path):
            found = summarize(path, content)
            if is_manifest(path):
                found["manifest"] = summarize_manifest(path, content)["manifest"]
            return found
        return summarize_manifest(path, content)

    def keys(self, path: str, summary: Summary) -> dict[str, bytes]:
        """See `Language`."""
        return keys_of(path, summary)

    def tree_keys(self, view: View) -> dict[str, bytes]:
        """See `Language`."""
        modules = Modules(view)
        return {ROOTS_KEY: modules.digest(), **unit_keys(modules.units)}

    def units(self, paths: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """See `Language`."""
        return units_of(paths)

    def linker(self, repo: str, view: View) -> Linker:
        """See `Language`."""
        return PythonLinker(repo, view)
