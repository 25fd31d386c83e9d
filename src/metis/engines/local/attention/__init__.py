"""Attention over a shared prefix and what each row has alone."""
