"""Functions that show what a model learned and what a graph's spectrum contains.

They return data and draw nothing: see :mod:`eigenformer.plots`.
"""
