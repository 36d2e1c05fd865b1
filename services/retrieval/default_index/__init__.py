"""The default index: Python's documentation, built on first use."""
