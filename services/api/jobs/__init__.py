"""Jobs of every kind."""
