"""Published code benchmarks; each module turns a row of its data set into a problem."""
