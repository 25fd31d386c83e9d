"""The update of the local engine: rows of the loss, gradients, optimizer steps."""
