"""Fixtures for the emulator's device runtime. (HCCL tests start ranks of their own.)"""

import ctypes
from collections.abc import Callable, Iterator

import pytest
from emulator_client import Acl


@pytest.fixture
def acl() -> Acl:
    """The emulator in this process, with device 0 current."""
    client = Acl()
    client.initialize()
    return client


@pytest.fixture
def new_stream(acl: Acl) -> Iterator[Callable[[], ctypes.c_void_p]]:
    """Makes streams, which are destroyed at the end of the test."""
    made: list[ctypes.c_void_p] = []

    def make() -> ctypes.c_void_p:
        made.append(acl.create_stream())
        return made[-1]

    yield make
    for stream in made:
        acl("aclrtDestroyStream", stream)
