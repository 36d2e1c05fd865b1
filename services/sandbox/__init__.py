"""Runs untrusted code and reports the result."""
