-- Snapshots, their history, and the caches that make the next one cost what changed. Everything here but `snapshots`,
-- `branch_events` and `events` can be made again from the identity layer, and `fsck` does.

CREATE TABLE snapshots (
    sequence INTEGER PRIMARY KEY, -- of this database; the log index follows once the node's log has it
    log_index INTEGER UNIQUE,     -- NULL only between the commit here and the append to the log
    epoch INTEGER NOT NULL,
    commit_hash TEXT NOT NULL,
    branch TEXT NOT NULL,
    generation INTEGER NOT NULL,
    source_root BLOB NOT NULL,
    overlay_root BLOB NOT NULL,
    node_count INTEGER NOT NULL,
    edge_count INTEGER NOT NULL,
    coverage TEXT NOT NULL,       -- counts by reason, canonical JSON
    extractor BLOB NOT NULL,
    submitter TEXT NOT NULL,
    timestamp INTEGER NOT NULL,
    map_roots TEXT NOT NULL,      -- the roots of the named maps of both graphs, JSON
    pruned INTEGER NOT NULL DEFAULT 0 -- 1: its events are gone, it can be named but not opened
) STRICT;

-- What a snapshot changed, for deltas and for opening the ones before it. The first snapshot has no events.
CREATE TABLE edge_events (
    sequence INTEGER NOT NULL REFERENCES snapshots (sequence) DEFERRABLE INITIALLY DEFERRED,
    added INTEGER NOT NULL,
    source INTEGER NOT NULL,
    type INTEGER NOT NULL,
    target INTEGER NOT NULL,
    provenance INTEGER NOT NULL
) STRICT;
CREATE INDEX edge_events_by_sequence ON edge_events (sequence);

CREATE TABLE events (
    sequence INTEGER NOT NULL REFERENCES snapshots (sequence) DEFERRABLE INITIALLY DEFERRED,
    added INTEGER NOT NULL,
    kind TEXT NOT NULL,           -- node, alias, member, facts, file, coverage
    layer INTEGER NOT NULL,
    body TEXT NOT NULL            -- the record, canonical JSON, nodes by id
) STRICT;
CREATE INDEX events_by_sequence ON events (sequence);

-- The root that a branch had before a snapshot changed it (NULL: there was no such branch).
CREATE TABLE branch_events (
    sequence INTEGER NOT NULL REFERENCES snapshots (sequence) DEFERRABLE INITIALLY DEFERRED,
    layer INTEGER NOT NULL,
    package_id INTEGER NOT NULL,
    type INTEGER NOT NULL,
    root_before BLOB,
    root_after BLOB
) STRICT;
CREATE INDEX branch_events_by_sequence ON branch_events (sequence);

-- Caches: branches of the edges map, and what inbound, names and packages are made of.
CREATE TABLE branches (
    layer INTEGER NOT NULL,
    package_id INTEGER NOT NULL,
    type INTEGER NOT NULL,
    root BLOB NOT NULL,
    PRIMARY KEY (layer, package_id, type)
) STRICT, WITHOUT ROWID;

CREATE TABLE package_roots (
    layer INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    package_id INTEGER NOT NULL,
    root BLOB NOT NULL,
    PRIMARY KEY (layer, slot, package_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE targets (
    layer INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    target INTEGER NOT NULL,
    type INTEGER NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (layer, slot, target, type)
) STRICT, WITHOUT ROWID;

CREATE TABLE segments (
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE node_segments (
    segment INTEGER NOT NULL REFERENCES segments (id),
    node INTEGER NOT NULL,
    PRIMARY KEY (segment, node)
) STRICT, WITHOUT ROWID;

CREATE TABLE names (
    layer INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    segment INTEGER NOT NULL,
    type INTEGER NOT NULL, -- -1: names from outside that are published anew
    PRIMARY KEY (layer, slot, segment, type)
) STRICT, WITHOUT ROWID;

CREATE TABLE maps (
    layer INTEGER NOT NULL,
    map TEXT NOT NULL,
    bits INTEGER NOT NULL,
    root BLOB NOT NULL,
    PRIMARY KEY (layer, map)
) STRICT, WITHOUT ROWID;

CREATE TABLE buckets (
    layer INTEGER NOT NULL,
    map TEXT NOT NULL,
    bucket INTEGER NOT NULL,
    root BLOB NOT NULL,
    entries INTEGER NOT NULL,
    PRIMARY KEY (layer, map, bucket)
) STRICT, WITHOUT ROWID;
