"""Inputs that once broke something: each has to be answered with one sentence, quickly."""
