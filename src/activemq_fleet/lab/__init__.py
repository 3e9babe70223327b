"""Run a fleet on loopback addresses: real brokers, one address for each host, without root or another network.

``lab.Lab`` is the interface. Nothing is imported here: ``activemq-fleet status`` needs no more than where a lab is.
"""
