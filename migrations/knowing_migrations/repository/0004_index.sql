-- What indexing keeps so that the next one reads only what changed: derived from the tree, covered by no root.

CREATE TABLE index_state (
    key TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE index_files (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    content_id TEXT NOT NULL,
    reason TEXT,      -- why its content kept it from being extracted
    summary BLOB      -- what its language read from it, MessagePack
) STRICT;

CREATE TABLE index_units (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE -- language and unit
) STRICT;

-- Which units looked at a key (64 bits of its hash) while they were linked.
CREATE TABLE index_visits (
    key INTEGER NOT NULL,
    unit INTEGER NOT NULL,
    PRIMARY KEY (key, unit)
) STRICT, WITHOUT ROWID;
CREATE INDEX index_visits_by_unit ON index_visits (unit);
