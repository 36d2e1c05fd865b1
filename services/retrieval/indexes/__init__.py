"""Indexes over REST: listing and dropping them, and changing their documents."""
