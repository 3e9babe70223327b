"""Determine incidents, their causes and the outcome of every event from logs and journals; pure functions."""
