"""Demos: end-to-end runs on tasks small enough for two CPU cores."""
