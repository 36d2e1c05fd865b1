"""What every HTTP service shares: errors, request ids, keys, health, metrics."""
