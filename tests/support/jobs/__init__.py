"""Jobs that play a script, and what trackers kept of them."""
