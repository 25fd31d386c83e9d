"""`metis export`: a checkpoint as a model folder for others, with a model card."""
