"""Search over indexes of passages: Search-R1's /retrieve, and what keeps the indexes."""
