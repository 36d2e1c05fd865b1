"""Commands made from the types of requests: ``start`` and ``fields`` of every kind, and flags."""
