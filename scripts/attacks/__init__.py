"""Attacks on the shared store of a pair of real brokers: its active node freezes, or loses its lock, under load.

python -m scripts.attacks --results FILE

Each attack has a lab of its own, and is one line of FILE. A run that was interrupted goes on where it stopped: what is
in FILE is not tried again.
"""
