"""Provide what reports share: the style of their pages, and parts of pages and drawings. Pure."""
