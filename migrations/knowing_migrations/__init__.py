"""Numbered SQL migrations of the repository databases and the node database."""
