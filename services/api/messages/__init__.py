"""Anthropic's messages API for served models."""
