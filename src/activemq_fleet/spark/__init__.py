"""Run plan, drift and audit over whole fleets on Spark. Needs ``pip install 'activemq-fleet[pipeline]'``.

Nothing is imported here: only a command that starts Spark may load pyspark.
"""
