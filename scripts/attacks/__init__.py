"""Attack the shared store of a pair of real brokers: its active node freezes, or loses its lock, under load.

python -m scripts.attacks --results FILE

Each attack has a separate lab, and is one line of FILE. An interrupted run continues: attacks that FILE contains are
not repeated.
"""
