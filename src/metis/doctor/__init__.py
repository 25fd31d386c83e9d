"""`metis doctor`: what is installed and works on this machine, and the command that mends the rest."""
