"""The failover agent: stays with whichever broker of a pair is alive, and keeps every event that it accepted."""
