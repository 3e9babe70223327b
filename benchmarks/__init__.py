"""Measure speed and memory, and compare each figure with the alternative of a user, in one run."""
