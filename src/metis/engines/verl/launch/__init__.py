"""A recipe as verl's command line, checked before anything starts."""
