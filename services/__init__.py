"""Temper's processes: one folder each, and what they share in common."""
