-- Whom the node knows and what they may see; what it holds of other nodes' histories, to believe and to prove later.

CREATE TABLE peers (
    id INTEGER PRIMARY KEY,
    origin BLOB NOT NULL UNIQUE,
    name TEXT NOT NULL UNIQUE,
    url TEXT,                 -- where it can be reached, if it can
    first_key BLOB NOT NULL,
    fingerprint BLOB,         -- of the certificate that is pinned, if one is
    state TEXT NOT NULL CHECK (state IN ('pending', 'accepted')),
    note TEXT NOT NULL,
    added_at INTEGER NOT NULL,
    last_seen INTEGER
) STRICT;
CREATE INDEX peers_pending ON peers (added_at, id) WHERE state = 'pending';

CREATE TABLE grants (
    peer INTEGER NOT NULL REFERENCES peers (id) ON DELETE CASCADE,
    pattern TEXT NOT NULL,
    relay INTEGER NOT NULL,
    PRIMARY KEY (peer, pattern)
) STRICT, WITHOUT ROWID;

-- The code itself is kept nowhere.
CREATE TABLE invites (
    code_hash BLOB PRIMARY KEY,
    patterns TEXT NOT NULL,   -- a JSON list
    relay INTEGER NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    used_by BLOB              -- the origin that was let in
) STRICT, WITHOUT ROWID;

CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    digest BLOB NOT NULL,
    scope TEXT NOT NULL CHECK (scope IN ('read', 'publish')),
    pattern TEXT NOT NULL,
    name TEXT NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER,
    revoked INTEGER,
    last_used INTEGER
) STRICT, WITHOUT ROWID;

-- How syncing with a peer went, and when to try again.
CREATE TABLE sync_state (
    peer INTEGER PRIMARY KEY REFERENCES peers (id) ON DELETE CASCADE,
    view BLOB,                -- digest of what it last let us see
    last_ok INTEGER,
    last_error TEXT NOT NULL,
    failures INTEGER NOT NULL,
    next_attempt INTEGER NOT NULL
) STRICT;

-- Other nodes, peers or not: a relayed repository is of a node that we may never have talked to.
CREATE TABLE origins (
    origin BLOB PRIMARY KEY,
    first_key BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE origin_key_notes (
    id INTEGER PRIMARY KEY,   -- their order
    origin BLOB NOT NULL,
    note TEXT NOT NULL,
    UNIQUE (origin, note)
) STRICT;

CREATE TABLE origin_epochs (
    origin BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    note TEXT NOT NULL,
    PRIMARY KEY (origin, epoch)
) STRICT, WITHOUT ROWID;

-- The highest state of each log that was seen and checked; it moves up only.
CREATE TABLE pins (
    origin BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    size INTEGER NOT NULL,
    root BLOB NOT NULL,
    note TEXT NOT NULL,
    PRIMARY KEY (origin, epoch)
) STRICT, WITHOUT ROWID;

CREATE TABLE origin_checkpoints (
    origin BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    size INTEGER NOT NULL,
    note TEXT NOT NULL,
    PRIMARY KEY (origin, epoch, size)
) STRICT, WITHOUT ROWID;

-- The headers that replicas stand on, each with its path into a checkpoint above.
CREATE TABLE origin_entries (
    origin BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    log_index INTEGER NOT NULL,
    repo_url TEXT NOT NULL,
    ref TEXT NOT NULL,
    header TEXT NOT NULL,
    size INTEGER NOT NULL,
    path BLOB NOT NULL,       -- the inclusion path, its hashes joined
    PRIMARY KEY (origin, epoch, log_index)
) STRICT, WITHOUT ROWID;
CREATE INDEX origin_entries_by_repository ON origin_entries (origin, repo_url, ref, epoch, log_index);

-- Who may read a repository of an origin through others, as the origin signed it; the highest serial counts.
CREATE TABLE origin_access (
    origin BLOB NOT NULL,
    repo_url TEXT NOT NULL,
    serial INTEGER NOT NULL,
    note TEXT NOT NULL,
    PRIMARY KEY (origin, repo_url)
) STRICT, WITHOUT ROWID;

CREATE TABLE evidence (
    id INTEGER PRIMARY KEY,
    origin BLOB NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE,
    found_at INTEGER NOT NULL
) STRICT;
CREATE INDEX evidence_by_origin ON evidence (origin, kind);

-- What a peer sent that did not lead to the root it was said to lead to.
CREATE TABLE quarantine (
    peer_origin BLOB NOT NULL,
    root BLOB NOT NULL,
    reason TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (peer_origin, root)
) STRICT, WITHOUT ROWID;

-- The hashes of other nodes' logs, as `log_hashes` has our own: whoever relays a repository can then show that its
-- origin's log only grew, from any size to any other.
CREATE TABLE origin_log_hashes (
    origin BLOB NOT NULL,
    epoch INTEGER NOT NULL,
    level INTEGER NOT NULL,
    position INTEGER NOT NULL,
    hash BLOB NOT NULL,
    PRIMARY KEY (origin, epoch, level, position)
) STRICT, WITHOUT ROWID;
