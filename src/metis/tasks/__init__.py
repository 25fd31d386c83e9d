"""Tasks: what is asked, and what an answer earns."""
