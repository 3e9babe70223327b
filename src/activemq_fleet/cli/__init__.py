"""The command line, one file a command; each exports ``command``."""
