"""Training on verl: Ray, FSDP, and vLLM for rollouts. This module imports nothing."""
