"""Published sets of programming problems, each read by its own schema: a row in, a problem out."""
