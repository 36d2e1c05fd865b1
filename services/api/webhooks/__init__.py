"""Webhooks over REST, and sending events to them."""
