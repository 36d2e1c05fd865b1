"""Batches: OpenAI's, and prompt batches."""
