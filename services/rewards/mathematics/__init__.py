"""Whether two answers mean the same: symbolic equivalence, in processes that can be killed."""
