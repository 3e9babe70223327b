"""Hosts and labels of the series that tests of alerts write."""

from __future__ import annotations

import shutil

import pytest

pytestmark = pytest.mark.skipif(
    shutil.which("promtool") is None,
    reason="promtool is missing: install it with apt-get install prometheus, or scripts/setup.sh --prometheus",
)


A = 'host="orders-mq01-a",group="orders",pair="orders-mq01",node="a"'


B = A.replace("-a", "-b").replace('"a"', '"b"')


JOB = 'job="activemq-brokers"'


LINK = 'link="orders-mq01-to-billing-mq01"'
