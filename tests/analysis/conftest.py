"""Analyses are tried on the same small run as training makes."""

from tests.training.conftest import _one_thread, cache_dir, run, table  # noqa: F401
