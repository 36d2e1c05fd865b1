"""Models: registration, merges, exports and their destinations."""
