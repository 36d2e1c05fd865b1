"""What online training minimises: functions of tensors, without models or files.

Tokens are ragged: a tensor over tokens has shape (m,) and holds the trained tokens of all sequences
one after the other, those of tools and prompts left out; ``sequence_of`` (m,) names the sequence
of each, counted from 0. Log-probabilities are natural logarithms.
"""
