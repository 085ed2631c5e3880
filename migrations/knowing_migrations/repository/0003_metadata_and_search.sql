-- The metadata layer (nothing in it can change a root) and the search layer (derived, rebuilt at will).

CREATE TABLE graph_notes (
    object_hash BLOB NOT NULL,
    key TEXT NOT NULL,
    value TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (object_hash, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE feedback (
    id INTEGER PRIMARY KEY,
    symbol_hash BLOB NOT NULL,
    session_id TEXT NOT NULL,
    useful INTEGER NOT NULL,
    timestamp INTEGER NOT NULL,
    neighborhood_root BLOB,
    keyword_cluster BLOB
) STRICT;
CREATE INDEX feedback_by_neighborhood ON feedback (neighborhood_root);
CREATE INDEX feedback_by_cluster ON feedback (keyword_cluster);

CREATE TABLE vocab_associations (
    keyword TEXT NOT NULL,
    symbol_name TEXT NOT NULL,
    symbol_hash BLOB NOT NULL,
    count INTEGER NOT NULL DEFAULT 1,
    last_seen INTEGER NOT NULL,
    subgraph_root BLOB,
    UNIQUE (keyword, symbol_hash)
) STRICT;

CREATE TABLE task_memory (
    id INTEGER PRIMARY KEY,
    keywords TEXT NOT NULL,
    symbol_hash BLOB NOT NULL,
    score REAL NOT NULL,
    timestamp INTEGER NOT NULL
) STRICT;

CREATE TABLE route_symbols (
    service_name TEXT NOT NULL,
    route_pattern TEXT NOT NULL,
    node_hash BLOB NOT NULL,
    mapping_type TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (service_name, route_pattern, mapping_type)
) STRICT, WITHOUT ROWID;

CREATE TABLE embeddings (
    node_hash BLOB NOT NULL,
    model TEXT NOT NULL,
    vector BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (node_hash, model)
) STRICT, WITHOUT ROWID;

CREATE TABLE nodes_fts_content (
    rowid INTEGER PRIMARY KEY, -- the id of the node
    symbol_name TEXT NOT NULL,
    concepts TEXT NOT NULL,
    qualified_name TEXT NOT NULL,
    signature TEXT NOT NULL,
    file_path TEXT NOT NULL,
    doc TEXT NOT NULL
) STRICT;

CREATE VIRTUAL TABLE nodes_fts USING fts5 (
    symbol_name, concepts, qualified_name, signature, file_path, doc,
    content = 'nodes_fts_content',
    content_rowid = 'rowid',
    tokenize = "unicode61 remove_diacritics 2 tokenchars '_'"
);
