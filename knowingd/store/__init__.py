"""The store: one SQLite database for each repository, ref and origin, and one for the node itself.

Nothing outside of this package knows SQL or SQLite. What others see is the `GraphStore` interface and plain records.
"""
