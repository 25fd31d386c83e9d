"""What a step will take, before a model is loaded: memory and seconds."""
