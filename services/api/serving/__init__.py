"""Inference through the gateway: servings, and the requests forwarded to them."""
