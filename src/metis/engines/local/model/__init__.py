"""The policy's network: loading, forward pass, hidden states, saving."""
