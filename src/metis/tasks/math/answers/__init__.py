"""Answers of mathematics: found in a response, and compared with a reference."""
