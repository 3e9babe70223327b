"""What was made of the very same objects is made once, and of no others."""

from __future__ import annotations

from functools import partial

from activemq_fleet.alike import Alike


def test_the_same_objects_are_asked_for_once_and_equal_ones_again() -> None:
    known: Alike[int] = Alike()
    one, equal = ["a"], ["a"]
    made = iter(range(9))

    found = [known.get(lambda: next(made), *of) for of in ((one,), (one,), (equal,), (one, equal), (one,))]

    assert found == [0, 0, 1, 2, 0]


def test_names_are_compared_by_value() -> None:
    known: Alike[str] = Alike()
    one = ["a"]

    found = [known.get(partial(str, name), one, names=name) for name in ("".join("ab"), "b", "".join(["a", "b"]))]

    assert found == ["ab", "b", "ab"]


def test_of_many_objects_that_come_and_go_none_is_taken_for_another() -> None:
    known: Alike[int] = Alike()

    assert all(known.get(partial(int, number), [number]) == number for number in range(1000))
