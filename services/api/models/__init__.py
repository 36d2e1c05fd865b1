"""The model registry over REST."""
