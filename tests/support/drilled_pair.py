"""Hosts of the pair that tests of a drill in the lab use."""

from __future__ import annotations

A, B = "orders-mq01-a.example.com", "orders-mq01-b.example.com"
