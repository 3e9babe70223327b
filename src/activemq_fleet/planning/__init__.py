"""Decide how a fleet is divided and planned in parts, without Spark.

``host_records`` reads a host from a line or row of the input, ``host_facts`` extracts the facts that concern other
hosts, ``components`` divides a fleet into groups without a connection, and ``compute`` returns the rows of one
component.
"""
