"""What HTTP services share: errors, authentication, limits, request ids, health, metrics."""
