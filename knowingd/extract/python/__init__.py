"""Python: summaries of modules and manifests, and the linker that joins them."""
