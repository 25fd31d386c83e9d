"""`metis doctor`: what works on this machine, and the command that mends what does not."""
