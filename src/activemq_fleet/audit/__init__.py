"""Conclude from logs and journals of brokers and agents what happened, why, and what became of every event. Pure."""
