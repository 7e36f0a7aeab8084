"""Mutated inputs for all readers and commands: ``python -m tests.fuzz`` or ``make fuzz``."""
