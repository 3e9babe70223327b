"""Bring the evidence of a fleet to the functions that judge it, and write the datasets of an audit."""
