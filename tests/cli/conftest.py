"""The commands are tried on the same small data as training is."""

from tests.training.conftest import _one_thread, cache_dir, run, table  # noqa: F401
