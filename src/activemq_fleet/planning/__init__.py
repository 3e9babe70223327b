"""The decisions of the job ``plan``, without Spark.

``records`` reads a host from a line or row of the input, ``host_facts`` what of its variables concerns other hosts,
``components`` divides a fleet into groups that nothing joins, and ``compute`` gives the rows of one component.
"""
