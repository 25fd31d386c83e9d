"""The objective of all engines: loss terms, mini-batches, the bound on the judge's gradient."""
