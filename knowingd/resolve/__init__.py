"""Resolution: the kernel's walk over what all registered repositories publish."""
