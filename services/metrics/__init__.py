"""Metrics of model outputs: pure functions over rows, without services or files."""
