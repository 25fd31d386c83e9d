"""`metis export`: a checkpoint as a model folder with a card, or transcripts for other viewers."""
