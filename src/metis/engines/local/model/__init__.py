"""The policy's network: loaded, run forward, read, written."""
