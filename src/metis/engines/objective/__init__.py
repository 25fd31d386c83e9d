"""Eq. 9 on every engine: the loss, its mini-batches, the bound on the judge's gradient."""
