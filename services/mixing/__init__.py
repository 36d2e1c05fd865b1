"""Mixing the rows of several files, for the command line and for trainings."""
