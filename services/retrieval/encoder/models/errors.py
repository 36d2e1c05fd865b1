"""Why a model cannot be had."""


class ModelUnusable(Exception):
    """There is no such model, or it is none that texts can be encoded with; says why."""
