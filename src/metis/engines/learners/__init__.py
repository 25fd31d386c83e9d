"""Models that learn beside the policy: the value model and the attention model."""
