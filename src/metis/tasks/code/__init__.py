"""Programs as answers: the tests they are run against, in a sandbox."""
