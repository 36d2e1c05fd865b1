"""The rollout child: plays conversations with tools for every prompt, and rewards them."""
