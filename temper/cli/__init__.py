"""The ``temper`` command: a folder per subject."""
