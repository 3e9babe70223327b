"""Histories of fleets with known ends, and a plain reference for their verdicts."""
