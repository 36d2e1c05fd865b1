"""Downloads of hub models to the cache of the worker's host."""
