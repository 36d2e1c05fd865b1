"""Docker engines of a test's own, and images that stand in for published ones."""
