"""Canonical paths: the grammar of the names by which code of one repository refers to code of another.

Promises: every path has exactly one spelling, so equal strings and equal paths are the same thing, on every machine.
`parse_path` accepts that spelling only and raises `InvalidNameError` for all else; `format_path` is its inverse.
Must never: repair a text, normalise Unicode (Python folds identifiers to NFKC: that is the duty of the extractor, which
knows the language), or know what a name refers to.

    scheme  "://"  head  steps                        python://flask.app.Flask().route
    scheme  "://"  "{" head "|" head … "}"  steps     python://{a.B|c.D()}().m      two to eight candidates

A head is a module and the steps that belong to this candidate alone. A step is a member's name, a call `()`, or, only
at the very end, the wildcard `*`. How module and names are joined depends on the scheme:

    python, java, csharp    first.name.name()         rust    crate::name::name()::name
    go                      import/path.Name.name     npm     @scope/pkg/sub#name.name     (`#=` is module.exports)
    unresolved              language/name             nothing else: no calls, wildcards or candidates

After a brace a name follows the separator of the scheme (`.`, in rust `::`), also where a candidate is a bare npm
module. Which steps stand inside of the brace and which after it is the extractor's choice and part of the path.
Reserved characters inside a segment are written as upper-case %XX of their UTF-8 bytes, all others as they are. The
module of npm and go keeps `.`, `/` and `:`, but in the last element of a go module `.` is escaped, because the first
one after the last `/` starts the names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Final, NamedTuple

from knowing_protocol.errors import InvalidNameError

MAXIMUM_BYTES: Final = 4096
MAXIMUM_STEPS: Final = 64
MAXIMUM_CANDIDATES: Final = 8


class Mark(Enum):
    """The steps that are not names; no unescaped name can be mistaken for one, whatever its letters."""

    CALL = "()"
    WILDCARD = "*"


CALL: Final = Mark.CALL
WILDCARD: Final = Mark.WILDCARD
Step = str | Mark
ANY_NAME: Final = "*"
"""The last segment of what may have any name."""


@dataclass(frozen=True, slots=True)
class Head:
    """Where a path begins. `steps` are those of one candidate; a head that stands alone has none."""

    module: str
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Path:
    """A parsed path: names and modules unescaped, one head, or two to eight in source order."""

    scheme: str
    heads: tuple[Head, ...]
    steps: tuple[Step, ...] = ()


class _Grammar(NamedTuple):
    head: re.Pattern[str]  # groups: module, steps
    tail: re.Pattern[str] | None  # what may follow a brace; None where candidates are not allowed
    first: str  # between the module and its first name
    separator: str  # between names


# Controls and bidirectional marks would let a path look like another one on a screen.
_INVISIBLE: Final = r" \x01-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
_ALWAYS_RESERVED: Final = r"%(){}|#*" + _INVISIBLE
_NEVER: Final = r"\x00\ud800-\udfff"
_RESERVED_IN_NAME: Final = re.compile(f"[{_ALWAYS_RESERVED}./:]")
_RESERVED_IN_MODULE: Final = re.compile(f"[{_ALWAYS_RESERVED}]")
_ESCAPES: Final = re.compile(r"(?:%[0-9A-F]{2})+")

_MARKS: Final = {mark.value: mark for mark in Mark}
_PATH_LIKE_MODULES: Final = frozenset({"npm", "go"})


def _text_without(reserved: str) -> str:
    return rf"(?:[^{reserved}{_NEVER}]++|%[0-9A-F]{{2}})++"


_LANGUAGES: Final = ("python", "npm", "go", "java", "rust", "csharp")
SCHEMES: Final = frozenset((*_LANGUAGES, "unresolved"))
_HINT: Final = "see the grammar in protocol/SPEC.md; an example is python://flask.app.Flask().route"


def parse_path(text: str) -> Path:
    """The path that a text spells, or InvalidNameError if it is not the spelling of any."""
    if len(text.encode(errors="surrogatepass")) > MAXIMUM_BYTES:
        raise InvalidNameError(f"a canonical path has at most {MAXIMUM_BYTES} bytes", hint=_HINT)
    scheme, marker, body = text.partition("://")
    if not marker:
        raise _malformed(text, "it has no scheme")
    grammar = _grammar_of(scheme)
    match = grammar.head.fullmatch(body)
    if match is None:
        if body.startswith("{"):
            return _parse_candidates(text, scheme, grammar, body[1:])
        raise _malformed(text, "a segment is empty, misplaced, or holds an unescaped character")
    module, steps = _parsed_head(text, scheme, grammar, match)
    if len(steps) > MAXIMUM_STEPS:
        raise _malformed(text, f"it has more than {MAXIMUM_STEPS} steps")
    return Path(scheme, (Head(module),), steps)


def format_path(path: Path) -> str:
    """The one spelling of a path, or InvalidNameError if the path is not well formed."""
    grammar = _grammar_of(path.scheme)
    if len(path.heads) == 1:
        body = _formatted_head(path.scheme, grammar, Head(path.heads[0].module, path.steps))
    else:
        candidates = "|".join(_formatted_head(path.scheme, grammar, head) for head in path.heads)
        body = f"{{{candidates}}}{_formatted_steps(path.steps, grammar.separator, grammar.separator)}"
    text = f"{path.scheme}://{body}"
    # The inverse is the definition of well formed, and reading back costs little.
    if parse_path(text) != path:
        raise _malformed(text, "its parts do not form one path")
    return text


def is_path(text: str) -> bool:
    """Whether a text is the spelling of a path."""
    try:
        parse_path(text)
    except InvalidNameError:
        return False
    return True


def is_plain(path: Path) -> bool:
    """Whether a path is a name and nothing else: one head, no calls, no wildcard, not unresolved."""
    return (
        len(path.heads) == 1 and path.scheme != "unresolved" and not any(isinstance(step, Mark) for step in path.steps)
    )


def alternatives(path: Path) -> tuple[Path, ...]:
    """The path once for each candidate, in source order; a path with one head is its own only alternative."""
    if len(path.heads) == 1:
        return (path,)
    return tuple(Path(path.scheme, (Head(head.module),), head.steps + path.steps) for head in path.heads)


def append(path: Path | str, steps: Iterable[Step]) -> Path:
    """The path with further steps at its end."""
    start = parse_path(path) if isinstance(path, str) else path
    longer = Path(start.scheme, start.heads, (*start.steps, *steps))
    format_path(longer)
    return longer


def plain_prefixes(path: Path) -> list[tuple[str, int]]:
    """Every prefix that somebody may publish as an alias, with the number of steps it consumes, longest first.

    These are the module and its leading names: a call or a wildcard is never part of a published name, and nobody
    publishes `unresolved`.
    """
    if len(path.heads) != 1:
        raise InvalidNameError("a path with candidates has no prefix", hint="ask for its alternatives first")
    if path.scheme == "unresolved":
        return []
    grammar = _grammar_of(path.scheme)
    text = f"{path.scheme}://{_escaped_module(path.scheme, path.heads[0].module)}"
    prefixes = [(text, 0)]
    separator = grammar.first
    for consumed, step in enumerate(path.steps, start=1):
        if isinstance(step, Mark):
            break
        text = f"{text}{separator}{_escaped(step, _RESERVED_IN_NAME)}"
        prefixes.append((text, consumed))
        separator = grammar.separator
    prefixes.reverse()
    return prefixes


def last_segments(path: Path) -> frozenset[str]:
    """What the `names` map files a path under: the last segment of each alternative.

    Names are unescaped. A path that ends in a call or a wildcard may mean a symbol of any name, and is filed under
    `*`; a name that is itself spelled `*` or `()` stays escaped.
    """
    return frozenset(_last_segment(alternative) for alternative in alternatives(path))


def local_last_segment(name: str) -> str:
    """The same key for the name of a node inside a repository: what follows the last dot outside of brackets.

    `<…>` and `(…)` protect their dots (`<T as a.Tr<A.B>>.m` is `m`); where they do not balance, as in operators, every
    dot counts.
    """
    return _told_from_marks(name[_last_separating_dot(name) + 1 :] or name)


def _malformed(text: str, reason: str) -> InvalidNameError:
    return InvalidNameError(f"not a canonical path, {reason}: {text[:80]!a}", hint=_HINT)


@cache
def _grammar_of(scheme: str) -> _Grammar:
    """The grammar of a scheme, compiled when its first path comes: few programs meet all languages."""
    if scheme not in SCHEMES:
        raise InvalidNameError(
            f"a canonical path has no such scheme: {scheme[:80]!a}",
            hint=f"the schemes are {', '.join((*_LANGUAGES, 'unresolved'))}",
        )
    name = _text_without(_ALWAYS_RESERVED + "./:")
    if scheme == "unresolved":
        return _Grammar(re.compile(f"({'|'.join(_LANGUAGES)})(/{name})"), None, "/", "/")
    separator = "::" if scheme == "rust" else "."
    literal = "::" if scheme == "rust" else "[.]"
    tail = rf"(?:{literal}{name}|\(\))*+(?:{literal}\*)?"
    head, first = f"({name})({tail})", separator
    element = _text_without(_ALWAYS_RESERVED + "/")
    if scheme == "go":
        last_element = _text_without(_ALWAYS_RESERVED + "/.")
        head = rf"((?:{element}/)*+{last_element})([.]{name}{tail}|[.]\*|)"
    elif scheme == "npm":
        head, first = rf"({element}(?:/{element})*+)(#{name}{tail}|#\*|)", "#"
    return _Grammar(re.compile(head), re.compile(tail), first, separator)


def _parsed_head(text: str, scheme: str, grammar: _Grammar, match: re.Match[str]) -> tuple[str, tuple[Step, ...]]:
    module, steps = match.groups()
    if "%" in module:
        escaped = module
        module = _unescaped(text, escaped)
        if _escaped_module(scheme, module) != escaped:
            raise _malformed(text, "its module has an escape that is not needed or not allowed")
    if "." in module and scheme in _PATH_LIKE_MODULES and not {".", ".."}.isdisjoint(module.split("/")):
        raise _malformed(text, "its module is relative")
    return module, _parsed_steps(text, steps, grammar.first, grammar.separator)


def _parsed_steps(text: str, steps: str, first: str, separator: str) -> tuple[Step, ...]:
    if not steps:
        return ()
    if first != separator and steps.startswith(first):
        steps = separator + steps.removeprefix(first)
    pieces = steps.replace("()", separator + "()").split(separator)[1:]
    if "%" not in steps:
        return tuple(map(_MARKS.get, pieces, pieces))
    return tuple([_MARKS.get(piece) or _unescaped_name(text, piece) for piece in pieces])


def _parse_candidates(text: str, scheme: str, grammar: _Grammar, body: str) -> Path:
    inside, brace, tail = body.partition("}")
    candidates = inside.split("|")
    if grammar.tail is None or not brace or grammar.tail.fullmatch(tail) is None:
        raise _malformed(text, "its candidates are misplaced or not closed, or wrong steps follow them")
    if not 2 <= len(candidates) <= MAXIMUM_CANDIDATES or len(set(candidates)) != len(candidates):
        raise _malformed(text, f"it needs two to {MAXIMUM_CANDIDATES} different candidates")
    heads = []
    for candidate in candidates:
        match = grammar.head.fullmatch(candidate)
        if match is None:
            raise _malformed(text, "a candidate has an empty or misplaced segment or an unescaped character")
        heads.append(Head(*_parsed_head(text, scheme, grammar, match)))
    steps = _parsed_steps(text, tail, grammar.separator, grammar.separator)
    if len(steps) + sum(len(head.steps) for head in heads) > MAXIMUM_STEPS:
        raise _malformed(text, f"it has more than {MAXIMUM_STEPS} steps")
    for head in heads:
        if steps and head.steps and head.steps[-1] is WILDCARD:
            raise _malformed(text, "a wildcard is not its last step")
        if steps and steps[0] is CALL and not head.steps and scheme in _PATH_LIKE_MODULES:
            raise _malformed(text, "a module is called, not a name in it")
    return Path(scheme, tuple(heads), steps)


def _formatted_head(scheme: str, grammar: _Grammar, head: Head) -> str:
    names = _formatted_steps(head.steps, grammar.first, grammar.separator)
    return _escaped_module(scheme, head.module) + names


def _formatted_steps(steps: tuple[Step, ...], first: str, separator: str) -> str:
    pieces: list[str] = []
    for step in steps:
        if step is not CALL:
            pieces.append(separator if pieces else first)
        pieces.append(step.value if isinstance(step, Mark) else _escaped(step, _RESERVED_IN_NAME))
    return "".join(pieces)


def _escaped_module(scheme: str, module: str) -> str:
    if scheme not in _PATH_LIKE_MODULES:
        return _escaped(module, _RESERVED_IN_NAME)
    parents, slash, last = _escaped(module, _RESERVED_IN_MODULE).rpartition("/")
    return parents + slash + (last.replace(".", "%2E") if scheme == "go" else last)


def _escaped(text: str, reserved: re.Pattern[str]) -> str:
    if text.isidentifier():
        return text  # by far the most; no identifier holds a reserved character
    return reserved.sub(lambda match: "".join(f"%{byte:02X}" for byte in match[0].encode()), text)


def _unescaped(text: str, segment: str) -> str:
    try:
        return _ESCAPES.sub(lambda match: bytes.fromhex(match[0].replace("%", "")).decode(), segment)
    except UnicodeDecodeError:
        raise _malformed(text, "its escapes are not UTF-8") from None


def _unescaped_name(text: str, segment: str) -> str:
    name = _unescaped(text, segment)
    if _escaped(name, _RESERVED_IN_NAME) != segment:
        raise _malformed(text, "it has an escape that is not needed or not allowed")
    return name


def _last_segment(path: Path) -> str:
    if not path.steps:
        module = path.heads[0].module
        return _told_from_marks(module.rpartition("/")[2] if path.scheme in _PATH_LIKE_MODULES else module)
    last = path.steps[-1]
    return ANY_NAME if isinstance(last, Mark) else _told_from_marks(last)


def _told_from_marks(name: str) -> str:
    return _escaped(name, _RESERVED_IN_NAME) if name in _MARKS else name


def _last_separating_dot(name: str) -> int:
    """Where the last dot outside of brackets is, -1 without one."""
    if "<" not in name and "(" not in name:
        return name.rfind(".")
    awaited: list[str] = []
    last = -1
    for position, character in enumerate(name):
        if character == "." and not awaited:
            last = position
        elif character in "<(":
            awaited.append(">" if character == "<" else ")")
        elif character in ">)":
            if name.startswith("->", position - 1):
                continue  # the arrow of a function type closes nothing
            if not awaited or awaited.pop() != character:
                return name.rfind(".")
    return name.rfind(".") if awaited else last
