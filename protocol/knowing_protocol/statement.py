"""A statement: what is claimed, of which entries of which logs, and the answer. The part of a bundle that people read.

Everything in it is either derived again by the verifier or compared with what was proven; nothing is taken on trust.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from knowing_protocol import encoding
from knowing_protocol.claims import CLAIMS, Answer, Caller, Question, Source, Undecided
from knowing_protocol.encoding import Decoder
from knowing_protocol.errors import MalformedError
from knowing_protocol.hashing import NodeId
from knowing_protocol.history import COMMIT, REF, repository_url
from knowing_protocol.records import canonical_path, local_type
from knowing_protocol.vocabulary import EdgeType, NodeKind, Provenance

AT_HEAD, AT_COMMITS = "head", "commits"
MAX_SCOPE: Final = 100_000
MAX_CALLERS: Final = 1_000_000
MAX_NAMES: Final = 10_000

EDGE_TYPE = encoding.one_of(*(one.value for one in EdgeType))
PROVENANCE = encoding.one_of(*(one.value for one in Provenance))
NODE_KIND = encoding.one_of(*(one.value for one in NodeKind))


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """The snapshot of one repository that a statement speaks of, and where it stands in whose log."""

    repository: str
    ref: str
    commit: str
    origin: bytes
    epoch: int
    index: int


class AllOf(NamedTuple):
    """That the scope is every repository of a node's roster with this ref whose URL matches the pattern."""

    origin: bytes
    epoch: int
    ref: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Statement:
    """A question, where it is asked, and its answer."""

    question: Question
    at: str
    scope: tuple[Entry, ...]
    all_of: AllOf | None
    answer: Answer

    def as_json(self) -> dict[str, Any]:
        """The statement as it stands in a bundle."""
        question, answer = self.question, self.answer
        return {
            "claim": question.claim,
            "symbol": question.symbol._asdict(),
            "source": None if question.source is None else question.source._asdict(),
            "types": list(question.types),
            "via": question.via,
            **({"by": list(question.by)} if question.by else {}),
            "at": self.at,
            "scope": [{**asdict(entry), "origin": entry.origin.hex()} for entry in self.scope],
            "all_of": None if self.all_of is None else {**self.all_of._asdict(), "origin": self.all_of.origin.hex()},
            "names": list(answer.names),
            "provenances": list(answer.provenances),
            "ambiguous": answer.ambiguous,
            "callers": [{**caller._asdict(), "provenances": list(caller.provenances)} for caller in answer.callers],
            "undecided": [
                {**one._asdict(), "sources": [[*source[:3], list(source.provenances)] for source in one.sources]}
                for one in answer.undecided
            ],
        }


_NAME = encoding.text()
_PROVENANCES = encoding.sequence(PROVENANCE, len(Provenance))

_NODE = encoding.record({"repo": _NAME, "package": _NAME, "name": _NAME, "kind": NODE_KIND})


def node(value: Any, place: str) -> NodeId:
    """Decoder of a node's identity: a phantom with its path alone, or a symbol of a repository."""
    found = NodeId(**_NODE(value, place))
    if found.kind == NodeKind.EXTERNAL:
        canonical_path(found.name, f"{place}.name")
        if found.repo or found.package:
            raise MalformedError(f"{place} is a name from outside and has a repository", code="inconsistent-node")
    else:
        repository_url(found.repo, f"{place}.repo")
    return found


def _record_of(kind: Any, fields: dict[str, Decoder[Any]]) -> Decoder[Any]:
    inner = encoding.record(fields)

    def decode(value: Any, place: str) -> Any:
        return kind(**inner(value, place))

    return decode


_ENTRY: Decoder[Entry] = _record_of(
    Entry,
    {
        "repository": repository_url,
        "ref": REF,
        "commit": COMMIT,
        "origin": encoding.digest,
        "epoch": encoding.integer,
        "index": encoding.integer,
    },
)
_ALL_OF: Decoder[AllOf] = _record_of(
    AllOf,
    {
        "origin": encoding.digest,
        "epoch": encoding.integer,
        "ref": REF,
        "pattern": encoding.text(1024, empty=False),
    },
)
_CALLER: Decoder[Caller] = _record_of(
    Caller,
    {
        "repository": repository_url,
        "package": _NAME,
        "name": _NAME,
        "kind": NODE_KIND,
        "type": EDGE_TYPE,
        "via": encoding.optional(canonical_path),
        "provenances": _PROVENANCES,
        "ambiguous": encoding.boolean,
    },
)


def _source(value: Any, place: str) -> Source:
    """Decoder of `[package, name, kind, [provenances]]`."""
    if not isinstance(value, list) or len(value) != 4:
        raise MalformedError(f"{place} is not [package, name, kind, provenances]", code="wrong-type")
    return Source(*local_type(value[:3], place), _PROVENANCES(value[3], place))


_UNDECIDED: Decoder[Undecided] = _record_of(
    Undecided,
    {
        "repository": repository_url,
        "type": EDGE_TYPE,
        "target": canonical_path,
        "reason": encoding.text(200),
        "sources": encoding.sequence(_source, MAX_CALLERS),
    },
)
_STATEMENT = encoding.record(
    {
        "claim": encoding.one_of(*CLAIMS),
        "symbol": node,
        "source": encoding.optional(node),
        "types": encoding.sequence(EDGE_TYPE, len(EdgeType)),
        "via": encoding.optional(canonical_path),
        "at": encoding.one_of(AT_HEAD, AT_COMMITS),
        "scope": encoding.sequence(_ENTRY, MAX_SCOPE),
        "all_of": encoding.optional(_ALL_OF),
        "names": encoding.sequence(canonical_path, MAX_NAMES),
        "provenances": _PROVENANCES,
        "ambiguous": encoding.boolean,
        "callers": encoding.sequence(_CALLER, MAX_CALLERS),
        "undecided": encoding.sequence(_UNDECIDED, MAX_CALLERS),
    },
    {"by": encoding.sequence(repository_url, MAX_SCOPE)},
)


def statement_from_json(value: Any, place: str) -> Statement:
    """Decoder of a statement; lists that are sets must be sorted and without repetition."""
    found = _STATEMENT(value, place)
    question = Question(found["claim"], found["symbol"], found["types"], found["source"], found["via"], found["by"])
    answer = Answer(found["names"], found["provenances"], found["ambiguous"], found["callers"], found["undecided"])
    statement = Statement(question, found["at"], found["scope"], found["all_of"], answer)
    repositories = [entry.repository for entry in statement.scope]
    if not repositories or repositories != sorted(set(repositories)):
        raise MalformedError(f"{place}.scope is empty, unsorted or names a repository twice", code="scope-order")
    if list(question.by) != sorted(set(question.by)) or not set(question.by) < set(repositories):
        raise MalformedError(f"{place}.by is unsorted, repeated, or not a part of the scope", code="by-order")
    if list(question.types) != sorted(set(question.types)):
        raise MalformedError(f"{place}.types are unsorted or repeated", code="types-order")
    if statement.all_of is not None and question.by:
        raise MalformedError(f"{place}: what some repositories use is not said of all", code="all-of-by")
    if statement.all_of is not None and statement.at != AT_HEAD:
        raise MalformedError(f"{place}: all repositories of a roster are known only at its head", code="all-of-commits")
    return statement
