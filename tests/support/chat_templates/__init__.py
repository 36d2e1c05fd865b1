"""Chat templates of known families in their published formats, with tiny tokenizers.

The templates are rewritten; they render the same texts as the published ones.
"""
