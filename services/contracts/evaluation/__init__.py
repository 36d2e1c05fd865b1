"""Evaluations: requests, results, benchmarks and comparisons."""
