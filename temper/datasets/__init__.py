"""Datasets on this machine and on the hub, as JSON Lines rows."""
