"""A tiny model and its base on a generated benchmark: comparison, reports and a table."""
