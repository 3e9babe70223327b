"""Plan a fleet of any size: its brokers, links, findings and files as datasets.

What is said of a broker and what stands in its files comes from the same functions that ``check``
and ``render`` call; here is only what spreads them over many machines. ``job.py`` has the order of
the steps, ``parts.py`` what a worker does.
"""
