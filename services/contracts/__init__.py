"""Wire types: what clients send and services answer."""
