"""The sentence of a verified statement, and what it does not cover: for people, from verified fields only.

Names come from repositories that nobody vouches for, so control, bidirectional and other invisible characters are
escaped, and quotation marks enclose whatever a stranger chose.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from knowing_protocol.claims import CALLERS, NO_NODE, NO_RELATION, NODE, Caller, Undecided
from knowing_protocol.hashing import NodeId
from knowing_protocol.history import DEFAULT_REF, Header
from knowing_protocol.paths import parse_path
from knowing_protocol.standard_library import in_standard_library
from knowing_protocol.statement import AT_HEAD, Entry, Statement
from knowing_protocol.vocabulary import USES, NodeKind

_INVISIBLE: Final = re.compile(
    "[\x00-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f"
    "\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_WORD: Final = re.compile(r"[A-Za-z0-9._/+@-]+")
_NOT_PLAIN: Final = re.compile(r"[^ -~]")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_VERBS: Final = {  # one does, many do, and what it is that they do
    "calls": ("calls", "call", "call"),
    "references": ("refers to", "refer to", "reference"),
    "imports": ("imports", "import", "import"),
    "decorates": ("is decorated by", "are decorated by", "decoration"),
    "extends": ("extends", "extend", "extension"),
}
_ALWAYS_NOT_COVERED: Final = (
    "what static extraction cannot see: dynamic dispatch, methods that a language calls without naming them, "
    "reflection, code made at run time, and calls through variables that hold a function"
)
_RE_EXPORTS: Final = "names that repositories outside of the scope give to the symbol"
_RIGHTS: Final = "whether repositories in scope publish only names of their own: what they say of others is believed"
_SHOWN: Final = 2  # of those who use a name that could not be followed, on a screen
_STANDARD: Final = "other names that the standard library has for the symbol"


def visible(text: str) -> str:
    """A text from a stranger, with every character that could hide or reorder others written as an escape."""
    return _INVISIBLE.sub(lambda match: f"\\u{{{ord(match[0]):x}}}", text)


def quoted(text: str) -> str:
    """A text from a stranger in quotation marks that it cannot leave, with letters that only look like others told."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + _NOT_PLAIN.sub(lambda match: f"\\u{{{ord(match[0]):x}}}", escaped) + '"'


def shown(text: str) -> str:
    """A word from a stranger that is no part of a sentence: as it is where it is plain, else in quotation marks."""
    return text if _WORD.fullmatch(text) else quoted(text)


def symbol_text(node: NodeId) -> str:
    """A symbol as people read it."""
    if node.kind == NodeKind.EXTERNAL:
        return f"name {quoted(node.name)}"
    if not node.name:
        return f"{_nameless(node.kind)} {quoted(node.package)} of {visible(node.repo)}"
    place = f" in {quoted(node.package)}" if node.package else ""
    return f"{node.kind} {quoted(node.name)}{place} of {visible(node.repo)}"


def sentence(statement: Statement) -> str:
    """The statement in words."""
    listing = "; ".join(_caller_text(caller) for caller in statement.answer.callers)
    claim = _claim(statement) + (f": {listing}." if listing else ".")
    return f"{_scope_text(statement)}: {claim}{_outside(statement)}"


def paragraphs(statement: Statement) -> list[str]:
    """The statement for a screen: the claim first, each caller on its own line, then where it holds."""
    callers = statement.answer.callers
    claim = _claim(statement)
    lines = [claim[0].upper() + claim[1:] + (":" if callers else ".") + _outside(statement)]
    lines += _by_repository(
        (one.repository, f"{_place_text(one.name, one.package, one.kind)}{_how(one)}") for one in callers
    )
    return [*lines, f"{_scope_text(statement, brief=True)}."]


def _by_repository(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Texts under the repositories that they are of."""
    last = None
    for repository, text in rows:
        if repository != last:
            yield f"  {visible(repository)}"
        last = repository
        yield f"    {text}"


def _outside(statement: Statement) -> str:
    """That a name from outside is nobody's in scope: only where that was looked at."""
    question = statement.question
    looked_at = question.symbol.kind == NodeKind.EXTERNAL and question.claim in (CALLERS, NO_RELATION)
    return " No repository in scope defines it." if looked_at else ""


def _claim(statement: Statement) -> str:
    """What is said, without where, and of callers how many they are."""
    question, answer = statement.question, statement.answer
    symbol = symbol_text(question.symbol)
    if question.claim == NODE:
        return f"the graph has the {symbol}"
    if question.claim == NO_NODE:
        return f"the graph has no {symbol}"
    verb, verb_of_many, noun = _words(question.types)
    resolved = "resolved " if answer.undecided else ""
    if question.source is not None:
        source = symbol_text(question.source)
        if question.claim == NO_RELATION:
            return f"no {resolved}{noun} goes directly from the {source} to the {symbol}"
        via = f", by the name {quoted(question.via)}" if question.via else ""
        doubt = " (or another symbol of that name)" if answer.ambiguous else ""
        return f"the {source} {verb} the {symbol}{doubt}{via} ({', '.join(answer.provenances)})"
    assert question.claim == CALLERS
    by = f" by {' or '.join(map(visible, question.by))}" if question.by else ""
    if answer.callers:
        number = len({caller[:4] for caller in answer.callers})
        does = verb if number == 1 else verb_of_many
        hint = " among what could be resolved" if answer.undecided else ""
        of = f" of {' or '.join(map(visible, question.by))}" if question.by else ""
        return f"exactly {_count(number, 'symbol')}{of}{hint} {does} the {symbol}"
    return f"{'' if resolved else 'there is '}no {resolved}{noun}{by} of the {symbol}"


def _words(types: Sequence[str]) -> tuple[str, str, str]:
    if set(types) == set(USES):
        return "uses", "use", "use"
    words = [_words_of(one) for one in types]
    return (
        " or ".join(one[0] for one in words),
        " or ".join(one[1] for one in words),
        " or ".join(one[2] for one in words),
    )


def _words_of(edge_type: str) -> tuple[str, str, str]:
    return _VERBS.get(edge_type, (f"has a {edge_type} edge to", f"have a {edge_type} edge to", f"{edge_type} edge"))


def _count(number: int, noun: str, plural: str = "") -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"


def _caller_text(caller: Caller) -> str:
    return f"{symbol_text(NodeId(*caller[:4]))}{_how(caller)}"


def _how(caller: Caller) -> str:
    via = f" as {quoted(caller.via)}" if caller.via else ""
    return via + (" (ambiguous)" if caller.ambiguous else "")


def _nameless(kind: str) -> str:
    """What is called after its package alone: its module, or else something that says what it is."""
    return "module" if kind == NodeKind.FILE else f"{kind} without a name in"


def _place_text(name: str, package: str, kind: str = "") -> str:
    """A symbol below its repository."""
    if not name:
        return f"{_nameless(kind or NodeKind.FILE)} {quoted(package)}"
    return f"{kind} {quoted(name)} in {quoted(package)}".lstrip()


def _scope_text(statement: Statement, *, brief: bool = False) -> str:
    """Where a statement holds; `brief` leaves to others to name the repositories and commits."""
    entries = statement.scope
    when = "At the head" if statement.at == AT_HEAD else "At the named commits"
    if statement.all_of is not None:
        which = "all" if statement.all_of.pattern == "*" else f"all that match {quoted(statement.all_of.pattern)}"
        if statement.all_of.ref != DEFAULT_REF:
            which += f" with the ref {quoted(statement.all_of.ref)}"
        number = _count(len(entries), "repository", "repositories")
        return f"{when} of {number}, {which} of the roster of node {statement.all_of.origin.hex()[:16]}"
    if brief:
        return f"{when} of " + (
            _count(len(entries), "repository", "repositories")
            if len(entries) > 3
            else " and ".join(f"{visible(entry.repository)}{_ref_text(entry)}" for entry in entries)
        )
    named = statement.at != AT_HEAD
    return f"{when} of " + ", ".join(_entry_text(entry, with_index=named) for entry in entries)


def _ref_text(entry: Entry) -> str:
    return "" if entry.ref == DEFAULT_REF else f" ({quoted(entry.ref)})"


def _entry_text(entry: Entry, *, with_index: bool) -> str:
    commit = entry.commit if _COMMIT.fullmatch(entry.commit) else quoted(entry.commit)
    index = f" (entry {entry.index})" if with_index else ""  # one commit may have been indexed more than once
    return f"{visible(entry.repository)}{_ref_text(entry)} at {commit}{index}"


def not_covered(statement: Statement, headers: Iterable[Header]) -> list[str]:
    """What the statement does not speak for; depends on the bundle alone."""
    return [*map(_undecided_text, statement.answer.undecided), *_never_covered(statement, headers)]


def limits(statement: Statement, headers: Iterable[Header]) -> list[str]:
    """What the statement does not speak for, for a screen: what could not be resolved stands by repository."""
    undecided = statement.answer.undecided
    lines = []
    if undecided:
        number = _count(len(undecided), "name was", "names were")
        lines.append(f"- {number} used that could not be followed, and could be it:")
        lines += _by_repository((one.repository, _open_text(one)) for one in undecided)
    return lines + [f"- {line}" for line in _never_covered(statement, headers)]


def _never_covered(statement: Statement, headers: Iterable[Header]) -> Iterator[str]:
    for header in headers:
        files = ", ".join(f"{count} {reason}" for reason, count in header.coverage.items())
        if files:
            yield f"{visible(header.repository)}: files not or not fully read: {files}"
    question = statement.question
    if question.claim in (CALLERS, NO_RELATION):
        yield from (f"relations of other types than {', '.join(question.types)}", _RE_EXPORTS, _RIGHTS)
        if question.symbol.kind == NodeKind.EXTERNAL and in_standard_library(parse_path(question.symbol.name)):
            yield _STANDARD
    yield _ALWAYS_NOT_COVERED


def _open_text(one: Undecided) -> str:
    """A target that is not excluded, with the first of those who use it; the report as JSON has them all."""
    sources = [_place_text(source.name, source.package) for source in one.sources]
    more = f" and {len(sources) - _SHOWN} more" if len(sources) > _SHOWN else ""
    noun = _words_of(one.type)[2]
    return f"{noun} of {quoted(one.target)} by {', '.join(sources[:_SHOWN])}{more}: {one.reason}"


def _undecided_text(one: Undecided) -> str:
    sources = ", ".join(_place_text(source.name, source.package) for source in one.sources)
    noun = _words_of(one.type)[2]
    return f"{visible(one.repository)}: {noun} of {quoted(one.target)} not excluded ({one.reason}), from: {sources}"
