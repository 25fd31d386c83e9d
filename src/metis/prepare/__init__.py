"""Downloads published data sets and writes them as training and test files."""
