"""The ``activemq_*`` variables that each host may set, validated and typed."""
