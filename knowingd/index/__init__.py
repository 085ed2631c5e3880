"""Indexing: from a source to the records of a snapshot, reading only what changed."""
