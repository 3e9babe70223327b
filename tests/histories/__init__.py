"""Histories of fleets with known outcomes, and a simple reference implementation of their verdicts."""
