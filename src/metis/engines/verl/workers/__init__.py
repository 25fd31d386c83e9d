"""On verl's workers: rows of the update, their loss, hidden states, and values."""
