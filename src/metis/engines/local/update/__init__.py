"""The update of the local engine: batches into rows, rows into gradients, gradients into steps."""
