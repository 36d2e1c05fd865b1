"""Graders: each decides whether an answer matches one of the golds of its sample.

A grader depends on nothing but its settings, the answer and the golds, so that grading twice gives
the same verdict. A grader that cannot work, or a gold that no answer can match, is an
``InvalidRequest`` before the first sample is asked; an answer is never an error.
"""
