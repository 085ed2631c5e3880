"""Sources: what the indexer reads from. Commits, work trees and plain directories, behind `interface.Source`."""

from __future__ import annotations

from pathlib import Path

from knowingd.errors import UsageError
from knowingd.source.directory import DirectorySource
from knowingd.source.errors import FetchError, SourceError, printable
from knowingd.source.gitsource import GitSource
from knowingd.source.identity import given_name, repository_url
from knowingd.source.interface import RULES, Entry, Source
from knowingd.source.locations import Location, list_repositories, locate
from knowingd.source.meaning import understood
from knowingd.source.mirrors import Progress, mirror, without_secret
from knowingd.source.working import WorkingView

__all__ = [
    "RULES",
    "Entry",
    "FetchError",
    "Location",
    "Progress",
    "Source",
    "SourceError",
    "WorkingView",
    "given_name",
    "list_repositories",
    "locate",
    "mirror",
    "open_source",
    "repository_url",
    "uncommitted",
    "without_secret",
    "working_view",
]


def open_source(path: Path, ref: str | None = None) -> Source:
    """The commit of a repository (HEAD, or any ref, tag or commit), or a plain directory; close it after use.

    What a path inside of a repository means is in `meaning.py`; the source's notes say how it was understood.
    """
    found, notes = understood(path)
    if found is not None:
        return GitSource(found, ref, notes)
    if ref is not None:
        raise UsageError(f"{printable(str(path))} is a plain directory, so it has no refs", hint="leave out --ref")
    return DirectorySource(path, notes)


def uncommitted(source: Source) -> WorkingView | None:
    """The work tree above the commit that a source reads; None for bare repositories and plain directories."""
    if isinstance(source, GitSource) and source.found.work_tree is not None:
        return WorkingView(source.found)
    return None


def working_view(path: Path) -> Source:
    """The work tree of a repository as it is now, changes and untracked files included; close it after use."""
    found, notes = understood(path)
    return DirectorySource(path, notes) if found is None else WorkingView(found, notes)
