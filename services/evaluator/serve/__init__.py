"""Servings: an engine that answers requests of the gateway until nobody asks any more."""
