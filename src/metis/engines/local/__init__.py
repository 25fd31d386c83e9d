"""Training a real model in this process: transformers for the update, vLLM for speed if wanted."""
