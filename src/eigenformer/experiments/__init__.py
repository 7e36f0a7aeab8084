"""Several runs together: reproduction, ablations, comparisons, the tables of the paper."""
