"""Stand-ins for inference engines and for the workers that start them."""
