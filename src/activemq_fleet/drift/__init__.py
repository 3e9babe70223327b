"""Compare what was planned for every host with what ``collect`` found on it (the command ``drift``)."""
