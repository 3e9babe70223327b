"""``activemq_vip*`` variables: the virtual address of a group, and the load balancers that hold it.

``activemq_vip`` belongs to a group of brokers, the others to the balancers' hosts; each may also be set where both
brokers and balancers see it.
"""

from __future__ import annotations

import ipaddress
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from activemq_fleet.settings import variable_types


def _check_vip(text: str) -> str:
    try:
        address = ipaddress.ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        raise ValueError(
            f"the virtual address {text!r} is not an IP address: write an address such as 10.0.0.100, without a prefix "
            "length such as /24"
        ) from None
    if "%" in text:
        raise ValueError(f"the virtual address {text!r} contains a zone (%): write the address without the zone")
    if address.is_multicast or address.is_unspecified:
        kind = "a multicast address" if address.is_multicast else "the address of all interfaces"
        raise ValueError(f"the virtual address {text!r} is {kind}: write the IP address of a single host")
    return str(address)


VirtualIp = Annotated[variable_types.Text, AfterValidator(_check_vip)]


class BalancerSettings(BaseModel):
    """The validated settings of a load balancer and its virtual address: a host's ``activemq_vip*`` variables."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, arbitrary_types_allowed=True)

    vip: VirtualIp | None = None
    vip_interface: variable_types.NetworkInterface | None = None
    vip_router_id: int | None = Field(default=None, ge=1, le=255)
    vip_username: variable_types.Principal | None = None
    vip_password: variable_types.Secret | None = None
    vip_broker_ca: variable_types.AbsolutePath | None = None
    vip_certificate: variable_types.AbsolutePath | None = None
    vip_check_port: variable_types.Port = 8405
    vip_config: variable_types.AbsolutePath = "/etc/activemq-loadbalancer"

    @model_validator(mode="after")
    def _check_vip_login(self) -> Self:
        variable_types.check_set_together(
            activemq_vip_username=self.vip_username, activemq_vip_password=self.vip_password
        )
        return self
