"""The search layer: a full-text index over symbols, made from the identity layer and changing no root."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import chain

from knowingd.store.codes import KIND_CODES, KINDS
from knowingd.store.rows import Hit
from knowingd.store.session import Session, insert, tail_of

_WEIGHTS = "10.0, 5.0, 3.0, 1.0, 4.0, 3.0"  # symbol_name, concepts, qualified_name, signature, file_path, doc
_COLUMNS = "rowid, symbol_name, concepts, qualified_name, signature, file_path, doc"
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_TERM = re.compile(r"\w+")
MAX_DOC = 1000
MAX_TERMS = 32
_ALL_TERMS = 1000.0  # what fits all words is better than anything that fits some, in every repository


@lru_cache(1 << 14)  # symbols share their owners and files
def words_of(name: str) -> tuple[str, ...]:
    """The words of a CamelCase or snake_case name, in small letters."""
    return tuple(word.lower() for word in _WORD.findall(name))


def concepts_of(name: str, path: str) -> str:
    """What a symbol and its file speak of: the words of their names."""
    stems = [part.partition(".")[0] for part in path.split("/")[-3:]]
    return " ".join(dict.fromkeys(chain.from_iterable(map(words_of, (*name.split("."), *stems)))))


def refresh(session: Session, nodes: Collection[int] | None) -> None:
    """Make the rows of some nodes again, or of all."""
    if nodes is None:
        insert(session, f"INSERT OR REPLACE INTO nodes_fts_content ({_COLUMNS})", _rows(session, None))
        session.execute("INSERT INTO nodes_fts (nodes_fts) VALUES ('rebuild')")
        return
    if not nodes:
        return
    gone = list(session.select(f"SELECT {_COLUMNS} FROM nodes_fts_content", "rowid", nodes))
    session.executemany(f"INSERT INTO nodes_fts (nodes_fts, {_COLUMNS}) VALUES ('delete', ?, ?, ?, ?, ?, ?, ?)", gone)
    session.executemany("DELETE FROM nodes_fts_content WHERE rowid = ?", ((row[0],) for row in gone))
    rows = list(_rows(session, nodes))
    insert(session, f"INSERT INTO nodes_fts_content ({_COLUMNS})", rows)
    insert(session, f"INSERT INTO nodes_fts ({_COLUMNS})", rows)


def _rows(session: Session, nodes: Collection[int] | None) -> Iterator[tuple[int, str, str, str, str, str, str]]:
    """One row for each symbol of the repository that is in a graph, with its first declaration."""
    query = (
        "SELECT n.id, n.name, p.name, coalesce(d.signature, ''), coalesce(f.path, ''), coalesce(d.doc, '') "
        "FROM nodes n JOIN packages p ON p.id = n.package_id "
        "LEFT JOIN declarations d ON d.node = n.id LEFT JOIN files f ON f.id = d.file "
        "WHERE n.layers > 0 AND n.kind <> ?"
    )
    seen: set[int] = set()
    for node, name, package, signature, path, doc in session.select(query, "n.id", nodes, KIND_CODES["external"]):
        if node not in seen:
            seen.add(node)
            concepts = concepts_of(name, path or package)
            yield node, tail_of(name), concepts, f"{package}.{name}", signature, path, doc[:MAX_DOC]


def find(session: Session, text: str, limit: int, kinds: Collection[str] = ()) -> list[Hit]:
    """The symbols that fit best. Whatever the text is, it is taken as words and never as a query language."""
    terms = list(dict.fromkeys(_TERM.findall(text)))[:MAX_TERMS]
    if not terms:
        return []
    words = [" OR ".join(f'"{one}"*' for one in dict.fromkeys((term, *words_of(term)))) for term in terms]
    every = " AND ".join(f"({one})" for one in words)
    found = _matches(session, every, limit, kinds)
    if len(found) < limit and len(terms) > 1:
        known = {hit.node for hit in found}
        some = _matches(session, " OR ".join(words), limit, kinds)
        return [
            *(hit._replace(score=hit.score - _ALL_TERMS) for hit in found),
            *[hit for hit in some if hit.node not in known][: limit - len(found)],
        ]
    return [hit._replace(score=hit.score - _ALL_TERMS) for hit in found]


def _matches(session: Session, query: str, limit: int, kinds: Collection[str]) -> list[Hit]:
    codes = [KIND_CODES[kind] for kind in kinds if kind in KIND_CODES]
    only = f"AND n.kind IN ({', '.join('?' * len(codes))})" if kinds else ""
    rows = session.execute(
        f"SELECT n.id, n.kind, bm25(nodes_fts, {_WEIGHTS}) AS score FROM nodes_fts "
        f"JOIN nodes n ON n.id = nodes_fts.rowid WHERE nodes_fts MATCH ? {only} ORDER BY score, n.id LIMIT ?",
        (query, *codes, limit),
    )
    return [Hit(node, KINDS[kind], score) for node, kind, score in rows]
