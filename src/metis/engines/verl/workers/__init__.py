"""verl's workers: the rows of an update, their loss, and the states that they read."""
