"""Pretend parts of real machines, built at test time."""
