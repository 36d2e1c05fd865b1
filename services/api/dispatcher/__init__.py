"""From the database to the broker, and the repairs that make lost messages harmless."""
