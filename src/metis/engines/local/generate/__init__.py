"""Sampling from the policy, with transformers or vLLM."""
