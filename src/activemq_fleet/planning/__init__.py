"""Decide how a fleet is divided and planned in parts, without Spark.

``records`` reads a host from a line or row of the input, ``host_facts`` what of its variables concerns other hosts,
``components`` divides a fleet into groups that nothing joins, and ``compute`` gives the rows of one component.
"""
