"""Several runs together: reproduction, ablations, the tables of the paper."""
