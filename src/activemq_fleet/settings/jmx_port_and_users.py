"""Define ``activemq_jmx``: the port at which a broker lets JMX clients in, and who they are."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from activemq_fleet.settings import variable_types
from activemq_fleet.settings.connectors_and_links import ImmutableSettingsBase


class JmxUserSettings(ImmutableSettingsBase):
    """The settings of a JMX user: one entry of ``activemq_jmx.users``.

    The user may read MBeans, or also set attributes and call operations.
    """

    name: variable_types.Principal
    password: variable_types.Secret
    access: Literal["readonly", "readwrite"] = "readonly"


class JmxSettings(ImmutableSettingsBase):
    """The JMX settings of a broker: the value of ``activemq_jmx``.

    Ports are without ``activemq_port_offset``. ``rmi_port`` is the second port of JMX clients, None for any.
    ``path`` is the last part of the address, None for ``/jmxrmi``. ``tls`` encrypts with the stores of
    ``activemq_tls``.
    """

    port: variable_types.Port = 1099
    rmi_port: variable_types.Port | None = None
    path: (
        Annotated[str, variable_types.matching_text_validator(r"/[A-Za-z0-9._/-]+", "must be a path such as /jmxrmi")]
        | None
    ) = None
    users: tuple[JmxUserSettings, ...] = Field(default=())
    tls: bool = False

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        doubled = variable_types.repeated_names([user.name for user in self.users])
        if doubled:
            raise ValueError(f"users of activemq_jmx has two entries for the user {doubled[0]!r}: remove one entry")
        return self
