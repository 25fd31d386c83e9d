"""verl's rollout servers: judging and rollouts."""
