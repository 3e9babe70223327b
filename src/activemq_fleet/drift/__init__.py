"""``drift``: what was planned for every host, against what ``collect`` found on it."""
