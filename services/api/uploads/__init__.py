"""Multipart uploads over REST."""
