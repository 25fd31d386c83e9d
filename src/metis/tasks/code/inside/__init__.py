"""Files that run inside the sandbox; they only import the standard library and each other."""
