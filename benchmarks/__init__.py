"""Measure speed and memory, and compare each figure with a reference in the same run."""
