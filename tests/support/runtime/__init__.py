"""Tests and stand-ins that run with the Python of a runtime."""
