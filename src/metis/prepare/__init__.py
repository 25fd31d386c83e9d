"""Data sets, from where they are published to files that train and test as they are."""
