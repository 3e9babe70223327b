"""The supported lines of ansible-core, each with the Python versions that it supports on controllers."""

CORES = {
    "2.19": ("3.11", "3.12", "3.13"),
    "2.20": ("3.12", "3.13", "3.14"),
    "2.21": ("3.12", "3.13", "3.14"),
}
