"""What a model learned and what a graph's spectrum shows, as functions that return data.

Nothing here draws: see :mod:`eigenformer.plots`.
"""
