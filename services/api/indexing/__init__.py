"""Building indexes over REST."""
