"""Fuzzing: each module below, except the three of the runner, is one target with invalid and hostile inputs."""
