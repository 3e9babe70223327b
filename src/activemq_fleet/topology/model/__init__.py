"""Define the data model of a fleet: groups, pairs, brokers, links, agents, load balancers."""
