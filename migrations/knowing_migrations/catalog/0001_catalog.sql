-- Which repositories may have something to say about a key. All of it is derived from their databases and is made again
-- when the file is deleted.

CREATE TABLE repositories (
    id INTEGER PRIMARY KEY AUTOINCREMENT, -- a repository whose keys are read anew gets a new one
    database TEXT NOT NULL UNIQUE,  -- its file name under repos/, which stands for URL, ref and origin
    version INTEGER NOT NULL,       -- of what counts as a key
    sequence INTEGER NOT NULL,      -- its newest snapshot when it was read, in the log or not; 0: none
    source_root BLOB NOT NULL,
    overlay_root BLOB NOT NULL,
    snapshot TEXT NOT NULL,         -- its newest snapshot that is in the log, JSON; empty: none
    seen TEXT NOT NULL,             -- what its files looked like just before it was read
    seen_at INTEGER NOT NULL,       -- when that was, in nanoseconds
    gone INTEGER NOT NULL           -- how many records went since its keys were read as a whole
) STRICT;

CREATE TABLE keys (
    fingerprint INTEGER NOT NULL,   -- the leading 64 bits of the key's hash
    repository INTEGER NOT NULL,
    PRIMARY KEY (fingerprint, repository)
) STRICT, WITHOUT ROWID;

-- References that may mean a symbol of any name: nearly every repository has a few, so their names stand here.
CREATE TABLE open_names (
    type INTEGER NOT NULL,
    repository INTEGER NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (type, repository, name)
) STRICT, WITHOUT ROWID;
