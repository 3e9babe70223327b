"""Speed and memory, each figure beside what a user would pick instead, in one run."""
