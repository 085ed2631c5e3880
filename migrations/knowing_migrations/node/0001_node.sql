-- The node's own database: what it has and what it signed. Written with synchronous=FULL.

CREATE TABLE settings (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE roster (
    id INTEGER PRIMARY KEY,
    repo_url TEXT NOT NULL,
    ref TEXT NOT NULL,
    origin BLOB NOT NULL,
    path TEXT,                -- where the repository is on this machine, if it is
    remote TEXT,              -- where its mirror is fetched from, if it is a mirror
    database TEXT NOT NULL UNIQUE, -- file name under repos/
    local INTEGER NOT NULL,   -- 1: this node is the origin, 0: a replica
    added_at INTEGER NOT NULL,
    removed_at INTEGER,
    UNIQUE (repo_url, ref, origin)
) STRICT;

-- One log an epoch. Leaves are whole headers; complete subtree hashes make proofs without reading all leaves.
CREATE TABLE log_entries (
    epoch INTEGER NOT NULL,
    log_index INTEGER NOT NULL,
    repo_url TEXT NOT NULL,
    ref TEXT NOT NULL,
    header TEXT NOT NULL,
    PRIMARY KEY (epoch, log_index)
) STRICT, WITHOUT ROWID;
CREATE INDEX log_entries_by_repository ON log_entries (repo_url, ref, epoch, log_index);

CREATE TABLE log_hashes (
    epoch INTEGER NOT NULL,
    level INTEGER NOT NULL,
    position INTEGER NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (epoch, level, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoints (
    epoch INTEGER NOT NULL,
    size INTEGER NOT NULL,
    note TEXT NOT NULL,
    PRIMARY KEY (epoch, size)
) STRICT, WITHOUT ROWID;

-- The newest header of each repository and ref: the content of the roster map.
CREATE TABLE heads (
    repo_url TEXT NOT NULL,
    ref TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    log_index INTEGER NOT NULL,
    digest BLOB NOT NULL,
    PRIMARY KEY (repo_url, ref)
) STRICT, WITHOUT ROWID;

CREATE TABLE key_notes (
    id INTEGER PRIMARY KEY,
    note TEXT NOT NULL UNIQUE
) STRICT;

-- The notes that begin epochs; the first needs none.
CREATE TABLE epochs (
    epoch INTEGER PRIMARY KEY,
    note TEXT NOT NULL
) STRICT;
