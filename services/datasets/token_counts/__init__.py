"""Tokens of the rows of a file by a model's own tokenizer."""
