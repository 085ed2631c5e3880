"""Questions: who uses a symbol, what a symbol uses, what it is called, and what leaves a repository."""
