"""Parsers of what people and other programs write: YAML, JSON, tool files."""
