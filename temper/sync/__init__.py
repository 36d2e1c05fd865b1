"""Copying the logs of campaigns to a store and back."""
