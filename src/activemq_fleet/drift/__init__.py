"""Compare the planned files of every host with the files that ``collect`` read from it (the command ``drift``)."""
