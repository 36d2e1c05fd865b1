"""Who answers the prompts that are learned from: the policy, a teacher, or the data."""
