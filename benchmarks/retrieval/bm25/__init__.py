"""The libraries of `benchmarks.retrieval.bm25_libraries`, each in its own process."""
