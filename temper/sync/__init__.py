"""Sync of campaign logs with a remote store."""
