"""`metis view`: the steps, judgments and rollouts of runs in a page."""
