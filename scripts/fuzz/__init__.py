"""Fuzzing: each module below, but for the three of the runner, is one target with inputs that nobody should write."""
