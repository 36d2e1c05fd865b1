"""Query serving: admission, cache, encoding, batching and search."""
