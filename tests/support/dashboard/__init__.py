"""A home with content for every view, and rules of accessibility."""
