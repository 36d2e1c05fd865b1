"""POST /retrieve, as clients of Search-R1 know it."""
