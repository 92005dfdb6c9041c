"""Device memory: capacity, copies and their checks, pinned host memory, virtual memory, sharing by processes."""

import ctypes
import multiprocessing
import os
import random

import pytest
from emulator_client import (
    DEFAULT,
    DEVICE_TO_DEVICE,
    DEVICE_TO_HOST,
    HOST_TO_DEVICE,
    HOST_TO_HOST,
    INVALID_PARAM,
    MIB,
    NOT_REGISTERED,
    RT_PARAM_INVALID,
    Acl,
    Physical,
    raises,
    script_output,
)

DEVICE, HOST, UNREGISTERED = 1, 0, 2


def location(acl: Acl, pointer) -> tuple[int, int]:
    """(kind, device) of a pointer."""
    attributes = (ctypes.c_uint32 * 7)()
    acl("aclrtPointerGetAttributes", pointer, attributes)
    return attributes[1], attributes[0]


def offset(pointer: ctypes.c_void_p, distance: int) -> ctypes.c_void_p:
    return ctypes.c_void_p(pointer.value + distance)


def test_capacity_is_enforced_per_device_and_freed_memory_comes_back():
    out = script_output(
        """
        acl.initialize(0)
        print(acl.memory()[1] == 64 * MIB, acl.memory()[0] == acl.memory()[1])
        held = acl.malloc(48 * MIB)
        with raises(OUT_OF_MEMORY, "device 0", "32.00 MiB", "free 16.00 MiB of 64.00 MiB", "TORCH_NPU_EMULATOR_MEMORY"):
            acl.malloc(32 * MIB)
        acl("aclrtSetDevice", 1)
        other = acl.malloc(64 * MIB)          # another device has its own
        acl("aclrtSetDevice", 0)
        acl.free(held)
        again = acl.malloc(64 * MIB)
        print(acl.memory()[0])
        """,
        environment={"TORCH_NPU_EMULATOR_MEMORY": "64 MiB"},
    )
    assert out.split() == ["True", "True", "0"]


def test_pages_of_freed_memory_never_exceed_the_capacity():
    """Resident bytes of the memory file stay within the capacity although every allocation goes elsewhere."""
    out = script_output(
        """
        acl.initialize(0)
        size = 8 * MIB
        highest = 0
        for step in range(12):
            pads = [acl.malloc(MIB + step * 4096) for _ in range(4)]     # moves what follows
            block = acl.malloc(size)
            acl("aclrtMemset", block, ctypes.c_size_t(size), 1, ctypes.c_size_t(size))
            for pointer in [*pads, block]:
                acl.free(pointer)
            for name in os.listdir("/proc/self/fd"):
                try:
                    if "memfd:npu" in os.readlink(f"/proc/self/fd/{name}"):
                        highest = max(highest, os.fstat(int(name)).st_blocks * 512)
                except OSError:
                    pass
        print(highest)
        """,
        environment={"TORCH_NPU_EMULATOR_MEMORY": "16M"},
    )
    assert 8 * MIB <= int(out) <= 17 * MIB


def test_random_allocations_never_overlap_and_keep_their_bytes(acl):
    generator = random.Random(3)
    live: list[tuple[ctypes.c_void_p, int, int]] = []
    before = acl.memory()[0]
    for step in range(400):
        if live and generator.random() < 0.45:
            pointer, size, value = live.pop(generator.randrange(len(live)))
            assert acl.read(pointer, size) == bytes([value]) * size
            acl.free(pointer)
        else:
            size = generator.choice([1, 33, 511, 4097, 70_001, 3 * MIB + 5])
            pointer = acl.malloc(size)
            assert pointer.value % (512 if size < 2 * MIB else 2 * MIB) == 0
            acl.write(pointer, bytes([step % 251]) * size)
            live.append((pointer, size, step % 251))
    for pointer, size, value in live:
        assert acl.read(pointer, size) == bytes([value]) * size
        acl.free(pointer)
    assert acl.memory()[0] == before


def test_copies_of_every_kind_move_the_bytes(acl):
    data = os.urandom(5000)
    first, second = acl.malloc(5000), acl.malloc(5000)
    out = ctypes.create_string_buffer(5000)
    size = ctypes.c_size_t(5000)
    acl("aclrtMemcpy", first, size, data, size, HOST_TO_DEVICE)
    acl("aclrtMemcpy", second, size, first, size, DEVICE_TO_DEVICE)
    acl("aclrtMemcpy", out, size, second, size, DEVICE_TO_HOST)
    assert out.raw == data
    other = ctypes.create_string_buffer(5000)
    acl("aclrtMemcpy", other, size, out, size, HOST_TO_HOST)
    assert other.raw == data
    acl("aclrtMemset", first, size, 9, size)
    acl("aclrtMemcpy", other, size, first, size, DEFAULT)
    assert other.raw == b"\x09" * 5000
    acl.free(first)
    acl.free(second)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("kind", "the destination is device memory, the source is pageable host memory"),
        ("beyond", "do not fit the destination"),
        ("count", "exceeds destMax"),
        ("freed", "not allocated"),
    ],
)
def test_wrong_copy_is_refused_before_it_runs(acl, asynchronous, wrong, words):
    device, freed = acl.malloc(1000), acl.malloc(1000)
    acl.free(freed)
    data = bytes(4096)
    arguments = {
        "kind": (device, 1000, data, 1000, DEVICE_TO_HOST),
        "beyond": (offset(device, 500), 4096, data, 2000, HOST_TO_DEVICE),
        "count": (device, 10, data, 11, HOST_TO_DEVICE),
        "freed": (freed, 1000, data, 1000, HOST_TO_DEVICE),
    }[wrong]
    dst, room, src, count, kind = arguments
    call = ("aclrtMemcpy", dst, ctypes.c_size_t(room), src, ctypes.c_size_t(count), kind)
    with raises(RT_PARAM_INVALID, words):
        if asynchronous:
            acl("aclrtMemcpyAsync", *call[1:], None)
        else:
            acl(*call)
    acl.free(device)


def test_copy_between_devices_needs_access_and_then_works():
    script_output("""
        acl.initialize(0)
        here = acl.malloc(64)
        acl.write(here, bytes(range(64)))
        acl("aclrtSetDevice", 1)
        there = acl.malloc(64)
        count = ctypes.c_size_t(64)
        with raises(RT_PARAM_INVALID, "from device 0 to device 1", "aclrtDeviceEnablePeerAccess"):
            acl("aclrtMemcpy", there, count, here, count, DEVICE_TO_DEVICE)
        possible = ctypes.c_int(-1)
        acl("aclrtDeviceCanAccessPeer", ctypes.byref(possible), 1, 0)
        assert possible.value == 1
        acl("aclrtDeviceEnablePeerAccess", 0, 0)
        acl("aclrtMemcpy", there, count, here, count, DEVICE_TO_DEVICE)
        assert acl.read(there, 64) == bytes(range(64))
    """)


def test_batched_copy_names_the_one_that_fails(acl):
    device = acl.malloc(64)
    sources = [ctypes.create_string_buffer(bytes([i]) * 16, 16) for i in range(3)]
    pointers = ctypes.c_void_p * 3
    sizes = ctypes.c_size_t * 3
    dsts = pointers(*[device.value + 16 * i for i in range(3)])
    srcs = pointers(*[ctypes.addressof(s) for s in sources])
    failed = ctypes.c_size_t()
    count = ctypes.c_size_t(3)
    none = (None, None, ctypes.c_size_t(0), ctypes.byref(failed))
    acl("aclrtMemcpyBatch", dsts, sizes(16, 16, 16), srcs, sizes(16, 16, 16), count, *none)
    assert acl.read(device, 48) == b"".join(bytes([i]) * 16 for i in range(3))
    with raises(RT_PARAM_INVALID, "exceeds destMax"):
        acl("aclrtMemcpyBatch", dsts, sizes(16, 8, 16), srcs, sizes(16, 16, 16), count, *none)
    assert failed.value == 1
    acl("aclrtMemcpyBatchAsync", dsts, sizes(16, 16, 16), srcs, sizes(16, 16, 16), count, *none, None)
    acl("aclrtSynchronizeStream", None)
    acl.free(device)


def test_freeing_what_is_no_allocation_is_refused(acl):
    device = acl.malloc(100)
    for pointer in (offset(device, 4), ctypes.c_void_p(0), ctypes.create_string_buffer(8)):
        with raises(INVALID_PARAM, "aclrtFree"):
            acl("aclrtFree", pointer)
    acl.free(device)
    with raises(INVALID_PARAM, "freed before"):
        acl.free(device)


def test_pointer_attributes_tell_where_memory_is(acl):
    device, pinned = acl.malloc(100), ctypes.c_void_p()
    plain = ctypes.create_string_buffer(100)
    acl("aclrtMallocHost", ctypes.byref(pinned), ctypes.c_size_t(100))
    assert location(acl, offset(device, 99)) == (DEVICE, 0)
    assert location(acl, offset(pinned, 99)) == (HOST, 0)
    assert location(acl, plain)[0] == UNREGISTERED
    acl("aclrtHostRegisterV2", plain, ctypes.c_uint64(100), 0)
    assert location(acl, plain) == (HOST, 0)
    acl("aclrtHostUnregister", plain)
    assert location(acl, plain)[0] == UNREGISTERED
    with raises(NOT_REGISTERED):
        acl("aclrtHostUnregister", plain)
    acl("aclrtFreeHost", pinned)
    with raises(INVALID_PARAM, "freed before"):
        acl("aclrtFreeHost", pinned)
    acl.free(device)


def test_virtual_memory_maps_ranges_next_to_each_other(acl):
    """What expandable segments do: reserve much, map little by little, unmap, and map again."""
    part = ctypes.c_size_t(2 * MIB)
    start = ctypes.c_void_p()
    before = acl.memory()[0]
    acl("aclrtReserveMemAddress", ctypes.byref(start), ctypes.c_size_t(64 * MIB), ctypes.c_size_t(0), None, 0)
    prop = Physical(memory=4, device=0, location=DEVICE)
    handles = []
    for i in range(2):
        handles.append(ctypes.c_void_p())
        acl("aclrtMallocPhysical", ctypes.byref(handles[i]), part, ctypes.byref(prop), 0)
        acl("aclrtMapMem", offset(start, 2 * MIB * i), part, ctypes.c_size_t(0), handles[i], 0)
    assert before - acl.memory()[0] == 4 * MIB
    data = os.urandom(3 * MIB)
    acl.write(start, data)  # over the seam
    assert acl.read(start, 3 * MIB) == data
    assert location(acl, offset(start, 3 * MIB)) == (DEVICE, 0)
    with raises(RT_PARAM_INVALID, "do not fit"):
        acl.write(offset(start, 3 * MIB), bytes(2 * MIB))

    acl("aclrtUnmapMem", offset(start, 2 * MIB))
    with raises(RT_PARAM_INVALID, "not allocated"):
        acl.read(offset(start, 2 * MIB), 8)
    acl("aclrtMapMem", offset(start, 8 * MIB), part, ctypes.c_size_t(0), handles[1], 0)
    assert acl.read(offset(start, 8 * MIB), MIB) == data[2 * MIB :]  # the memory moved, the bytes stayed

    with raises(INVALID_PARAM, "still mapped"):
        acl("aclrtReleaseMemAddress", start)
    for distance in (0, 8 * MIB):
        acl("aclrtUnmapMem", offset(start, distance))
    for handle in handles:
        acl("aclrtFreePhysical", handle)
    acl("aclrtReleaseMemAddress", start)
    assert acl.memory()[0] == before


def use_memory_of_parent(key: bytes, shareable: int, pipe) -> None:
    acl = Acl()
    acl.initialize(1)
    pointer = ctypes.c_void_p()
    pipe.send(os.getpid())
    assert pipe.recv() == "allowed"
    acl("aclrtIpcMemImportByKey", ctypes.byref(pointer), key, ctypes.c_uint64(0))
    pipe.send(acl.read(pointer, 100))
    acl.write(pointer, b"B" * 100)
    with raises(RT_PARAM_INVALID, "do not fit"):
        acl.read(pointer, 101)
    acl("aclrtIpcMemClose", key)

    handle, start = ctypes.c_void_p(), ctypes.c_void_p()
    size = ctypes.c_size_t(2 * MIB)
    acl("aclrtMemImportFromShareableHandle", ctypes.c_uint64(shareable), 1, ctypes.byref(handle))
    acl("aclrtReserveMemAddress", ctypes.byref(start), size, ctypes.c_size_t(0), None, 0)
    acl("aclrtMapMem", start, size, ctypes.c_size_t(0), handle, 0)
    pipe.send(acl.read(start, 100))
    acl.write(start, b"D" * 100)
    pipe.send("written")


def test_another_process_uses_exported_memory_once_it_is_allowed(acl):
    device, key = acl.malloc(100), ctypes.create_string_buffer(65)
    acl.write(device, b"A" * 100)
    acl("aclrtIpcMemGetExportKey", device, ctypes.c_size_t(100), key, ctypes.c_size_t(65), ctypes.c_uint64(0))
    handle, start, shareable = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    size, prop = ctypes.c_size_t(2 * MIB), Physical(memory=4, device=0, location=DEVICE)
    acl("aclrtMallocPhysical", ctypes.byref(handle), size, ctypes.byref(prop), 0)
    acl("aclrtReserveMemAddress", ctypes.byref(start), size, ctypes.c_size_t(0), None, 0)
    acl("aclrtMapMem", start, size, ctypes.c_size_t(0), handle, 0)
    acl.write(start, b"C" * 100)
    acl("aclrtMemExportToShareableHandle", handle, 0, ctypes.c_uint64(0), ctypes.byref(shareable))

    with raises(207006, "not among those"):  # nobody is allowed yet, not even this process
        acl("aclrtIpcMemImportByKey", ctypes.byref(ctypes.c_void_p()), key, ctypes.c_uint64(0))

    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=use_memory_of_parent, args=(key.value, shareable.value, theirs))
    child.start()
    assert ours.poll(30)
    pid = ctypes.c_int32(ours.recv())
    acl("aclrtIpcMemSetImportPid", key, ctypes.byref(pid), ctypes.c_size_t(1))
    acl("aclrtMemSetPidToShareableHandle", shareable, ctypes.byref(pid), ctypes.c_size_t(1))
    ours.send("allowed")
    received = [ours.recv() for _ in range(3) if ours.poll(30)]
    assert received == [b"A" * 100, b"C" * 100, "written"]
    child.join(30)
    assert child.exitcode == 0
    assert acl.read(device, 100) == b"B" * 100
    assert acl.read(start, 100) == b"D" * 100

    acl("aclrtIpcMemClose", key)
    with raises(INVALID_PARAM, "closed the key"):
        acl("aclrtIpcMemImportByKey", ctypes.byref(ctypes.c_void_p()), key, ctypes.c_uint64(0))
    acl("aclrtUnmapMem", start)
    acl("aclrtReleaseMemAddress", start)
    acl("aclrtFreePhysical", handle)
    acl.free(device)


def test_forked_children_do_not_inherit_device_memory(acl):
    out = script_output("""
        acl.initialize()
        device = acl.malloc(64)
        child = os.fork()
        if child == 0:
            ctypes.string_at(device, 1)   # must fault
            os._exit(0)
        print(os.waitpid(child, 0)[1] & 0x7F)
    """)
    assert out == "11"  # SIGSEGV
