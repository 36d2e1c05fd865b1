"""Online training: rollouts, their judging, and updates of the policy, one after the other or
side by side."""
