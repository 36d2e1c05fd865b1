"""Chat templates of known families in their published formats, with tiny tokenizers.

The templates are written anew: they give the texts that the published ones give.
"""
