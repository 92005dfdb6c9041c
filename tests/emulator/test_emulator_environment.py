"""What the environment can ask of the emulator: devices, masks, memory, faults, traces."""

import json

import pytest
from emulator_client import run_script, script_output

COUNT = """
    count = ctypes.c_uint32(99)
    code = acl.code("aclrtGetDeviceCount", ctypes.byref(count))
    print(code, count.value, acl.message())
"""


@pytest.mark.parametrize(
    ("environment", "devices"),
    [
        ({}, 8),
        ({"LOCAL_WORLD_SIZE": "12"}, 12),
        ({"TORCH_NPU_EMULATOR_DEVICES": "3"}, 3),
        ({"TORCH_NPU_EMULATOR_DEVICES": "0"}, 0),
        ({"ASCEND_RT_VISIBLE_DEVICES": "5,1"}, 2),
        ({"ASCEND_RT_VISIBLE_DEVICES": ""}, 0),
    ],
)
def test_device_count_follows_the_environment(environment, devices):
    assert script_output(COUNT, environment=environment).split() == ["0", str(devices)]


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"ASCEND_RT_VISIBLE_DEVICES": "1,9"}, ["device 9 does not exist", "devices 0 to 7"]),
        ({"ASCEND_RT_VISIBLE_DEVICES": "1,1"}, ["device 1 is named twice"]),
        ({"ASCEND_RT_VISIBLE_DEVICES": "a"}, ["'a' is not a device number"]),
        ({"TORCH_NPU_EMULATOR_DEVICES": "many"}, ["TORCH_NPU_EMULATOR_DEVICES=many", "0 to 1024"]),
        ({"TORCH_NPU_EMULATOR_MEMORY": "5 apples"}, ["TORCH_NPU_EMULATOR_MEMORY=5 apples", "512M"]),
        ({"TORCH_NPU_EMULATOR_MEMORY": "1000"}, ["at least 1 MiB"]),
    ],
)
def test_bad_environment_is_a_clear_error(environment, words):
    out = script_output(COUNT, environment=environment)
    assert out.split()[0] != "0"
    for word in words:
        assert word in out


def test_visible_devices_keep_the_order_of_the_mask():
    out = script_output(
        """
        acl.initialize(1)
        chip = ctypes.c_int64()
        for device in range(3):
            acl("aclrtGetDeviceInfo", device, 402, ctypes.byref(chip))
            print(chip.value)
        with raises(INVALID_DEVICE, "device 3 does not exist", "0 to 2", "ASCEND_RT_VISIBLE_DEVICES=6,0,4"):
            acl("aclrtSetDevice", 3)
        """,
        environment={"ASCEND_RT_VISIBLE_DEVICES": "6,0,4"},
    )
    assert out.split() == ["6", "0", "4"]


@pytest.mark.parametrize(
    ("text", "size"), [("2097152", 1 << 21), ("3M", 3 << 20), ("1.5GiB", 3 << 29), ("2 gb", 2 << 30)]
)
def test_memory_size_is_read_with_units(text, size):
    body = "acl.initialize(); print(acl.memory()[1])"
    assert int(script_output(body, environment={"TORCH_NPU_EMULATOR_MEMORY": text})) == size


def test_default_memory_is_shared_by_the_ranks_of_the_job():
    body = "acl.initialize(); print(acl.memory()[1])"
    alone = int(script_output(body))
    shared = int(script_output(body, environment={"LOCAL_WORLD_SIZE": "4"}))
    assert shared == pytest.approx(alone / 4, rel=0.3)


def test_device_memory_of_every_query_agrees():
    out = script_output(
        """
        acl.initialize()
        total = ctypes.c_int64()
        acl("aclrtGetDeviceInfo", 0, 301, ctypes.byref(total))
        print(total.value, acl.memory()[1])
        """,
        environment={"TORCH_NPU_EMULATOR_MEMORY": "96M"},
    )
    assert out.split() == [str(96 << 20)] * 2


FAULTS = "TORCH_NPU_EMULATOR_FAULTS"


def test_fault_hits_the_named_use_of_a_call_on_the_named_rank():
    body = """
        acl.initialize()
        pointer = ctypes.c_void_p()
        print([acl.code("aclrtMalloc", ctypes.byref(pointer), ctypes.c_size_t(64), 0) for _ in range(4)])
    """
    text = "aclrtMalloc:2:3:oom,aclrtMalloc:2:4:error=107000"
    assert script_output(body, environment={FAULTS: text, "RANK": "2"}) == "[0, 0, 207001, 107000]"
    assert script_output(body, environment={FAULTS: text, "RANK": "1"}) == "[0, 0, 0, 0]"


def test_late_copy_shows_a_host_buffer_that_is_reused_too_early():
    out = script_output(
        """
        acl.initialize()
        stream, device = acl.create_stream(), acl.malloc(4)
        data = ctypes.create_string_buffer(b"good", 4)
        acl.copy_async(device, data, 4, stream, HOST_TO_DEVICE)
        data.raw = b"evil"                     # without waiting
        acl("aclrtSynchronizeStream", stream)
        print(acl.read(device, 4).decode())
        """,
        environment={FAULTS: "aclrtMemcpyAsync:*:*:late-copy"},
    )
    assert out == "evil"


def test_delayed_call_takes_its_time_and_a_killed_process_is_gone():
    out = script_output(
        """
        import time
        acl.initialize()
        start = time.monotonic()
        acl.malloc(64)
        print(time.monotonic() - start)
        """,
        environment={FAULTS: "aclrtMalloc:*:*:delay=120"},
    )
    assert 0.12 <= float(out) < 10
    assert run_script("acl.initialize()", environment={FAULTS: "aclrtSetDevice:*:1:kill"}).returncode == -9


def test_hanging_task_leaves_the_host_free_and_the_process_ends():
    out = script_output(
        """
        acl.initialize()
        stream, device = acl.create_stream(), acl.malloc(64)
        acl.fill_async(device, 1, 64, stream)
        with raises(STREAM_TIMEOUT):
            acl("aclrtSynchronizeStreamWithTimeout", stream, 50)
        print("free")
        """,
        environment={FAULTS: "task/aclrtMemsetAsync:*:1:hang"},
    )
    assert out == "free"


@pytest.mark.parametrize("text", ["aclrtMalloc:0:1", "aclrtMalloc:x:1:oom", "aclrtMalloc:*:0:oom", "aclrtMalloc:*:1:jump"])
def test_malformed_fault_ends_the_process_with_its_reason(text):
    done = run_script("acl.initialize()", environment={FAULTS: text})
    assert done.returncode == 2 and f"'{text}'" in done.stderr


def test_trace_has_every_call_and_task_in_nanoseconds(tmp_path):
    path = tmp_path / "trace.jsonl"
    script_output(
        """
        acl.initialize()
        stream, device = acl.create_stream(), acl.malloc(64)
        acl.fill_async(device, 1, 64, stream)
        acl("aclrtSynchronizeStream", stream)
        acl.code("aclrtFree", None)
        """,
        environment={"TORCH_NPU_EMULATOR_TRACE": str(path)},
    )
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    calls = [line["name"] for line in lines if line["kind"] == "call"]
    assert calls == [
        "aclInit", "aclrtSetDevice", "aclrtCreateStream", "aclrtMalloc", "aclrtMemsetAsync",
        "aclrtSynchronizeStream", "aclrtFree",
    ]  # fmt: skip
    (task,) = [line for line in lines if line["kind"] == "task"]
    launch = next(line for line in lines if line["name"] == "aclrtMemsetAsync" and line["kind"] == "call")
    assert launch["start"] <= task["queued"] <= task["start"] <= task["end"]
    assert task["device"] == 0 and task["result"] == 0
    assert lines[-1]["name"] == "aclrtFree" and lines[-1]["result"] != 0
