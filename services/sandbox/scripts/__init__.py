"""Scripts: Python programs that run for hours, for clients with the key for scripts."""
