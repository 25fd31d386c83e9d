"""Published data as files and rows: what tasks read with and `metis prepare` writes with."""
