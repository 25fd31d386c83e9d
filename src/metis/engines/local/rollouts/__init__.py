"""Episodes played with the policy, and their rewards."""
