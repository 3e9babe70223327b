"""Run plan, drift and audit over whole fleets on Spark. Needs the wheel's extra ``pipeline``.

Nothing is imported here: only a command that starts Spark may load pyspark.
"""
