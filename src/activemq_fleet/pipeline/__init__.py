"""Spark jobs over whole fleets: plan, drift, audit. Needs ``pip install 'activemq-fleet[pipeline]'``.

Nothing is imported here: only a command that starts Spark may load pyspark.
"""
