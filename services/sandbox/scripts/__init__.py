"""Scripts: Python programs that run for hours, for a client with a key of their own."""
