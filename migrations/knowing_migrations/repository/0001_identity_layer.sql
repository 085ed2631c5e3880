-- The identity layer of one repository (and ref) as one origin publishes it: what the Merkle maps are made of.
-- Ids are of this database alone; hashes stand at every boundary and are made from identities, not kept beside them.
-- `layer` is 0 for source, 1 for overlay.

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
    slot INTEGER NOT NULL, -- the leading 32 bits of the node's hash, as a signed number
    package_id INTEGER NOT NULL REFERENCES packages (id),
    name TEXT NOT NULL,
    kind INTEGER NOT NULL,
    layers INTEGER NOT NULL, -- bit 0: in the source graph, bit 1: in the overlay; 0: in neither any more
    deleted_at INTEGER -- when it left both; kept for events and taken away by gc
) STRICT;
CREATE INDEX nodes_by_slot ON nodes (slot);
CREATE INDEX nodes_by_package ON nodes (package_id);
CREATE INDEX nodes_deleted ON nodes (deleted_at) WHERE deleted_at IS NOT NULL;

-- An edge is one number, so that a row of four columns costs what one costs, and edges lie in order of their source.
-- The way back, from targets to sources, is the table `inbound` of the next migration.
CREATE TABLE edges (
    id INTEGER PRIMARY KEY, -- source, 6 bits of type, 24 bits of target, 4 bits of provenance
    source INTEGER GENERATED ALWAYS AS (id >> 34) VIRTUAL,
    type INTEGER GENERATED ALWAYS AS (id >> 28 & 63) VIRTUAL,
    target INTEGER GENERATED ALWAYS AS (id >> 4 & 16777215) VIRTUAL,
    provenance INTEGER GENERATED ALWAYS AS (id & 15) VIRTUAL
) STRICT;

-- An alias is `prefix` + `tail`; a tail of NULL is the last segment of the target's name, which is what most are.
CREATE TABLE alias_prefixes (
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE aliases (
    id INTEGER PRIMARY KEY,
    layer INTEGER NOT NULL,
    prefix INTEGER NOT NULL REFERENCES alias_prefixes (id),
    tail TEXT,
    target INTEGER NOT NULL,
    claimed INTEGER NOT NULL
) STRICT;
CREATE INDEX aliases_by_target ON aliases (target);

CREATE TABLE members (
    id INTEGER PRIMARY KEY,
    layer INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    name TEXT, -- NULL: the last segment of the target's name
    target INTEGER NOT NULL
) STRICT;
CREATE INDEX members_by_owner ON members (owner);
CREATE INDEX members_by_target ON members (target);

CREATE TABLE facts (
    layer INTEGER NOT NULL,
    node INTEGER NOT NULL,
    facts TEXT NOT NULL, -- JSON, what is not empty
    PRIMARY KEY (layer, node)
) STRICT, WITHOUT ROWID;

CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    layer INTEGER NOT NULL,
    path TEXT NOT NULL,
    content_hash BLOB NOT NULL,
    attributes_root BLOB NOT NULL,
    declared BLOB NOT NULL, -- ids of the nodes that it declares
    sources BLOB NOT NULL,  -- ids of the nodes that have call sites there
    UNIQUE (layer, path)
) STRICT;

CREATE TABLE declarations (
    node INTEGER NOT NULL,
    file INTEGER NOT NULL,
    ordinal INTEGER NOT NULL, -- among the declarations of that node in that file
    line INTEGER NOT NULL,
    end_line INTEGER NOT NULL,
    signature TEXT NOT NULL,
    doc TEXT NOT NULL,
    PRIMARY KEY (node, file, ordinal)
) STRICT, WITHOUT ROWID;

-- Call sites, one row for each source and file: all sites of its edges there, packed (see store/packing.py).
CREATE TABLE sites (
    source INTEGER NOT NULL,
    file INTEGER NOT NULL,
    packed BLOB NOT NULL,
    PRIMARY KEY (source, file)
) STRICT, WITHOUT ROWID;

CREATE TABLE coverage (
    id INTEGER PRIMARY KEY,
    layer INTEGER NOT NULL,
    path TEXT NOT NULL,
    reason TEXT NOT NULL,
    UNIQUE (layer, path)
) STRICT;
