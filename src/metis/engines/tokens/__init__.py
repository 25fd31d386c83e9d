"""Tokenization and packing, for engines with a tokenizer."""
