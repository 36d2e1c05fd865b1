"""Grading of chemistry: RDKit's part runs in a child with the runtime ``grading``."""
