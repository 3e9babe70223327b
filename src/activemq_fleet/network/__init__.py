"""Parse what connects brokers: URIs and ``<networkConnector>`` elements; facts of one text, without a fleet."""
