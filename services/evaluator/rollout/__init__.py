"""The rollout child: runs multi-turn conversations for every prompt and scores them."""
