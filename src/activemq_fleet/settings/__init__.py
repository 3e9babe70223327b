"""``activemq_*`` variables: what each host may set, checked and typed."""
