"""Code as the answer: programs are run against tests in a sandbox."""
