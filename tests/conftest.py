"""Fixtures that every folder of tests may use."""

from collections.abc import Callable, Iterator

import pytest

from torch_npu.testing import World


@pytest.fixture(scope="module")
def worlds() -> Iterator[Callable[..., World]]:
    """``worlds(size, **options)``: the module's world of that size and options, closed and checked at its end."""
    made: dict[tuple, World] = {}

    def get(size: int, **options: object) -> World:
        key = (size, repr(sorted(options.items())))
        if key not in made:
            made[key] = World(size, **options)
        return made[key]

    yield get
    for world in made.values():
        world.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of several processes share one xdist worker: side by side they would starve each other on few cores."""
    for item in items:
        if "worlds" in getattr(item, "fixturenames", ()) or item.get_closest_marker("ranks"):
            item.add_marker(pytest.mark.xdist_group("ranks"))
