-- The identity layer of one repository (and ref) as one origin publishes it: what the Merkle maps are made of.
-- Ids are of this database alone; hashes stand at every boundary. `layer` is 0 for source, 1 for overlay.
-- `slot` is the leading 32 bits of a row's key in its map: the buckets of cached roots are ranges of slots.

CREATE TABLE repos (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    repo_hash BLOB NOT NULL,
    repo_url TEXT NOT NULL,
    ref TEXT NOT NULL,
    origin BLOB NOT NULL
) STRICT;

CREATE TABLE packages (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE nodes (
    id INTEGER PRIMARY KEY,
    slot INTEGER NOT NULL,
    node_hash BLOB NOT NULL,
    package_id INTEGER NOT NULL REFERENCES packages (id),
    name TEXT NOT NULL,
    kind INTEGER NOT NULL,
    layers INTEGER NOT NULL DEFAULT 1, -- bit 0: in the source graph, bit 1: in the overlay; 0: in neither any more
    deleted_at INTEGER -- when it left both; kept for events and taken away by gc
) STRICT;

CREATE TABLE edges (
    source INTEGER NOT NULL,
    type INTEGER NOT NULL,
    target INTEGER NOT NULL,
    provenance INTEGER NOT NULL,
    PRIMARY KEY (source, type, target, provenance)
) STRICT, WITHOUT ROWID;

CREATE TABLE aliases (
    layer INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    name TEXT NOT NULL,
    target INTEGER NOT NULL,
    claimed INTEGER NOT NULL,
    PRIMARY KEY (layer, slot, name, target)
) STRICT, WITHOUT ROWID;

CREATE TABLE members (
    layer INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    name TEXT NOT NULL,
    target INTEGER NOT NULL,
    PRIMARY KEY (layer, slot, owner, name, target)
) STRICT, WITHOUT ROWID;

CREATE TABLE facts (
    layer INTEGER NOT NULL,
    node INTEGER NOT NULL,
    facts TEXT NOT NULL, -- canonical JSON
    PRIMARY KEY (layer, node)
) STRICT, WITHOUT ROWID;

CREATE TABLE files (
    layer INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    path TEXT NOT NULL,
    content_hash BLOB NOT NULL,
    attributes_root BLOB NOT NULL,
    id INTEGER NOT NULL UNIQUE,
    PRIMARY KEY (layer, slot, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE declarations (
    file INTEGER NOT NULL,
    node INTEGER NOT NULL,
    line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    signature TEXT NOT NULL,
    doc TEXT NOT NULL,
    PRIMARY KEY (file, node, line, end_line, signature, doc)
) STRICT, WITHOUT ROWID;

-- Call sites, one row for each file and source: all sites of its edges there, packed (see store/sites.py).
CREATE TABLE sites (
    file INTEGER NOT NULL,
    source INTEGER NOT NULL,
    packed BLOB NOT NULL,
    PRIMARY KEY (file, source)
) STRICT, WITHOUT ROWID;

CREATE TABLE coverage (
    layer INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    path TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (layer, slot, path)
) STRICT, WITHOUT ROWID;

CREATE INDEX nodes_by_slot ON nodes (slot);
CREATE INDEX nodes_by_package ON nodes (package_id) WHERE deleted_at IS NULL;
CREATE INDEX edges_by_target ON edges (target, type, source, provenance);
CREATE INDEX aliases_by_target ON aliases (target);
CREATE INDEX members_by_owner ON members (owner);
CREATE INDEX members_by_target ON members (target);
CREATE INDEX files_by_id ON files (id);
CREATE INDEX sites_by_source ON sites (source);
CREATE INDEX declarations_by_node ON declarations (node);
