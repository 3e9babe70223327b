"""Random values for variables of ``settings.xml_element_settings``, from their models, with occasional nonsense."""

from __future__ import annotations

import types
import typing
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin

from hypothesis import strategies as st

from activemq_fleet.settings import usage
from activemq_fleet.settings.xml_beans import BeanWithTypeKey, NamedDestination, SwitchableBean, XmlBean
from activemq_fleet.settings.xml_element_settings import SettingsRenderedAsXmlElements

NONSENSE = st.sampled_from(
    [None, -7, "", "x y", "${a}", "]]>", {"type": "no"}, [1], "#{1}", 1.5, True, "70 %", "9" * 40]
)
NAMES = st.sampled_from(["a", "orders.>", "orders.*.in", ">", "DLQ.x-1", "b.c", "VirtualTopic.>", "ä/é"])
TEXTS = st.sampled_from(
    ["a", "a > 'b' AND c < \"d\"", "5 mb", "x.*", "Consumer.*.", "/srv/x", "${activemq.data}/x.dot", "&"]
)
SIZES = st.sampled_from(["1 mb", "64mb", "1024 b", "2 GB", "10k"])
BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: st.one_of(st.integers(0, 5), st.integers(-1, 1 << 40)),
    float: st.floats(0.01, 5),
    str: st.one_of(TEXTS, NAMES, SIZES),
}


def model_of(annotation: Any) -> type[XmlBean] | None:
    """Return the bean that a type is or contains, or None."""
    if isinstance(annotation, type) and issubclass(annotation, XmlBean):
        return annotation
    return next((model for part in get_args(annotation) if (model := model_of(part))), None)


def value_of(annotation: Any, name: str = "") -> st.SearchStrategy[Any]:
    """Return a strategy for values of a type, most of them valid."""
    if get_origin(annotation) is Annotated:
        return value_of(get_args(annotation)[0], name)
    if get_origin(annotation) in (typing.Union, types.UnionType):
        return value_of(next(part for part in get_args(annotation) if part is not types.NoneType), name)
    if get_origin(annotation) is Literal:
        return st.sampled_from(get_args(annotation))
    if get_origin(annotation) is tuple:
        return st.lists(value_of(get_args(annotation)[0], name), max_size=2)
    if isinstance(annotation, type) and issubclass(annotation, XmlBean):
        return st.deferred(lambda: bean_of(annotation))  # a bean can contain another of its kind
    if annotation is str and name in ("destination", "name"):
        return NAMES
    if annotation is str and ("limit" in name or "length" in name or "size" in name or name == "total"):
        return SIZES
    return BY_TYPE[annotation]


@cache
def bean_of(model: type[XmlBean]) -> st.SearchStrategy[Any]:
    """Return a strategy for a bean: a mapping of some of its keys, or its short form."""
    members = {name: value_of(field.annotation, name) for name, field in model.model_fields.items()}
    for key in model.IMPLIED:
        inner = model.model_fields[key].annotation
        assert inner is not None
        members |= {name: value_of(field.annotation, name) for name, field in inner.model_fields.items()}
        del members[key]
    required = {
        name for name in members if name in ("type", "kind", "name", "destination", "forward_to", "limit", "policies")
    }
    if not members:
        return st.sampled_from([True, {}])
    beans: st.SearchStrategy[Any] = st.lists(st.sampled_from(sorted(members)), max_size=4, unique=True).flatmap(
        lambda keys: st.fixed_dictionaries(
            {name: value_or_nonsense(members[name]) for name in sorted({*keys, *required})}
        )
    )
    if issubclass(model, BeanWithTypeKey):
        beans = st.one_of(beans, members["type"])
    if issubclass(model, SwitchableBean):
        beans = st.one_of(beans, st.booleans())
    if issubclass(model, NamedDestination):
        beans = st.one_of(beans, NAMES, st.builds("{}://{}".format, st.sampled_from(["queue", "topic"]), NAMES))
    if issubclass(model, usage.MemoryUsage | usage.StoreUsage | usage.JobSchedulerUsage):
        beans = st.one_of(beans, SIZES, st.builds("{} %".format, st.integers(0, 101)))
    return beans


def value_or_nonsense(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy that replaces one of 40 values by nonsense."""
    return st.integers(0, 39).flatmap(lambda chance: values if chance else NONSENSE)


VARIABLES = {
    name: value_or_nonsense(value_of(field.annotation, name))
    for name, field in SettingsRenderedAsXmlElements.model_fields.items()
}
element_settings = st.lists(st.sampled_from(sorted(VARIABLES)), min_size=1, max_size=3, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: VARIABLES[name] for name in names})
)
"""Values of one to three variables, whose names have no prefix ``activemq_``."""
