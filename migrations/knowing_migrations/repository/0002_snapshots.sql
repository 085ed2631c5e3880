-- Snapshots, their history, and the caches that make the next one cost what changed. All but snapshots and events can
-- be made again from the identity layer, and `fsck --repair` does.

CREATE TABLE snapshots (
    sequence INTEGER PRIMARY KEY, -- of this database; the log index follows once the node's log has it
    log_index INTEGER,            -- NULL only between the commit here and the append to the log
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
    pruned INTEGER NOT NULL,      -- 1: its events are gone, it can be named but not opened
    UNIQUE (epoch, log_index)
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

-- Caches: the roots of the branches of the edges map, the inbound sets, and the bucket roots of all maps.
CREATE TABLE branches (
    layer INTEGER NOT NULL,
    package_id INTEGER NOT NULL,
    type INTEGER NOT NULL,
    root BLOB NOT NULL,
    PRIMARY KEY (layer, package_id, type)
) STRICT, WITHOUT ROWID;

-- The relations of one type to one target: who they come from, and the value of the set where it costs to make it.
CREATE TABLE inbound (
    target INTEGER NOT NULL,
    type INTEGER NOT NULL,
    layer INTEGER NOT NULL,
    value BLOB,   -- NULL where it is made of one or two relations
    sources BLOB, -- source * 16 + provenance, sorted and packed; NULL where a tree of its own has them
    PRIMARY KEY (target, type, layer)
) STRICT, WITHOUT ROWID;

-- A Merkle map cut into buckets by the leading bits of its keys: the named maps, and large sets of inbound and names.
CREATE TABLE trees (
    id INTEGER PRIMARY KEY,
    layer INTEGER NOT NULL,
    map TEXT NOT NULL,
    type INTEGER NOT NULL,  -- of a set: its edge type; else -1
    subject ANY NOT NULL,   -- of a set: the id of its target, or the segment of its targets; else ''
    bits INTEGER NOT NULL,
    size INTEGER NOT NULL,
    root BLOB NOT NULL,
    tops BLOB NOT NULL,     -- the roots of its blocks
    UNIQUE (layer, map, type, subject)
) STRICT;

-- Sixteen buckets: their roots, and the ids of what is in each.
CREATE TABLE tree_blocks (
    id INTEGER PRIMARY KEY, -- tree * 2^32 + block
    roots BLOB NOT NULL,
    members BLOB NOT NULL
) STRICT;
