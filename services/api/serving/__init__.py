"""Inference through the gateway: servings, and the requests that they answer."""
