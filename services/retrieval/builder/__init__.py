"""Index builds and bulk changes; runs in its own process."""
