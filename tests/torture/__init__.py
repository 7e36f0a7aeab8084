"""Kills, full disks and rivals: whatever happens to a run, nothing is lost and nothing is wrong."""
