"""One driver of the emulator for the tests of aclnn operators."""

from collections.abc import Iterator

import pytest
from aclnn_driver import Driver


@pytest.fixture(scope="session")
def session_driver() -> Driver:
    return Driver()


@pytest.fixture
def npu(session_driver: Driver) -> Iterator[Driver]:
    yield session_driver
    session_driver.free_all()
