"""The fleet as data: groups, pairs, brokers, links, agents, load balancers."""
