"""Adapters that engines cannot apply, merged into their base."""
