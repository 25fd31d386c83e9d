"""Chats, choices and rows as tokens, for every engine that has a tokenizer."""
