"""The documentation site: assemble its pages, generate the reference, and build it with Zensical."""
