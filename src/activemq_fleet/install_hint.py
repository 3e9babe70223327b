"""Build the sentence that explains how to install the library or the agent: from built files, never by name.

The project holds neither ``activemq-fleet`` nor ``activemq-agent`` in a public index. Any account can register a free
name there, and its code would run where the name is installed.
"""

from __future__ import annotations

from activemq_fleet import __version__

_LIBRARY = f"dist/activemq_fleet-{__version__}-py3-none-any.whl"
_AGENT = f"dist/activemq_agent-{__version__}-py3-none-any.whl"


def install_hint(extra: str = "") -> str:
    """Return the hint how to install the Python package activemq-fleet with pip, from the wheels of a release.

    ``extra`` is ``lab``, ``agent``, ``pipeline`` or none.
    """
    library = f"'{_LIBRARY}[{extra}]'" if extra else _LIBRARY
    agent = f" {_AGENT}" if extra in ("lab", "agent") else ""
    return f"install the wheels of a release (`make package` builds them in a checkout): pip install {library}{agent}"
