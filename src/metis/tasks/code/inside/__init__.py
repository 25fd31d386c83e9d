"""Files that run inside the sandbox; standard library only, and nothing of this package."""
