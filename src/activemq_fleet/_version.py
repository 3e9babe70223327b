"""The version of the library, the collection and the agent, in one place.

``python -m scripts.set_version VERSION`` sets it here and in the files that must repeat it.
"""

__version__ = "0.1.0"
