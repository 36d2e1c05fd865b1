"""Demonstrations that run to a table of results, and job files; see README.md."""
