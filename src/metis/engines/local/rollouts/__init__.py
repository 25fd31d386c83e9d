"""Rollouts: episodes with the policy, and their rewards."""
