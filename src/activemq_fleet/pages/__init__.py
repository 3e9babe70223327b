"""What reports share: the style of their pages, and the parts of which these are made. Pure."""
