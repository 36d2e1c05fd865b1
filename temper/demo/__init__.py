"""Demonstrations: whole ways through the platform, on tasks small enough for two CPU cores."""
