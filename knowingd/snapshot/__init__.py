"""Snapshots: Merkle maps over the store, their history, and what differs between them."""
