"""Passage retrieval: Search-R1's /retrieve, /v1/search, and the indexes behind them."""
