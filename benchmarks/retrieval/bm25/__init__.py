"""The libraries of `benchmarks.retrieval.bm25_libraries`, each in a process of its own."""
