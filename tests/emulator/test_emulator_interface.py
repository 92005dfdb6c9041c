"""The ABI as a whole: what is exported, contexts and threads, messages, facts and settings."""

import ctypes
import pathlib
import re
import subprocess
import threading

import pytest
from emulator_client import (
    CONTEXT_NULL,
    INVALID_DEVICE,
    INVALID_PARAM,
    NOT_SUPPORTED,
    REPEAT_INITIALIZE,
    Acl,
    library_path,
    raises,
    script_output,
)

ABI = pathlib.Path(__file__).parents[2] / "csrc" / "cann"


def exported() -> set[str]:
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", str(library_path())], capture_output=True, text=True, check=True
    ).stdout
    return {line.split()[-1] for line in listing.splitlines()}


def test_exports_every_function_of_the_abi_headers():
    declared = set()
    for name in ("acl.h", "aclnn.h", "hccl.h"):
        declared |= set(re.findall(r"\b((?:acl|Hccl)\w+)\s*\(", (ABI / "abi" / name).read_text()))
    assert len(declared) > 150 and not declared - exported()


def test_exports_what_the_vendors_wheel_links_and_nothing_foreign():
    names = exported()
    rows = [line.split("\t") for line in (ABI / "facts" / "acl_functions.tsv").read_text().splitlines()[1:]]
    linked = {row[0] for row in rows if re.match(r"linked(\+|$)", row[4])}
    assert len(linked) > 60 and not linked - names
    known = {row[0] for row in rows}
    assert all(name in known or name.startswith("aclnn") or name == "npu_emulator_interface" for name in names)


def test_cann_names_load_and_share_one_state():
    folder = library_path().parent
    out = script_output(
        """
        acl.initialize(3)
        folder = sys.argv[1]
        for name in ("ascendcl", "hccl", "hcomm", "acl_op_compiler", "nnopbase", "ge_runner", "graph",
                     "acl_tdt_channel", "msprofiler"):
            library = ctypes.CDLL(f"{folder}/lib{name}.so")
            device = ctypes.c_int(-1)
            assert library.aclrtGetDevice(ctypes.byref(device)) == 0
            print(device.value)
        """,
        str(folder),
    )
    assert set(out.split()) == {"3"}


def test_device_is_current_per_thread():
    acl = Acl()
    acl.initialize(0)
    results = []

    def ask():
        device = ctypes.c_int(-1)
        results.append(acl.code("aclrtGetDevice", ctypes.byref(device)))
        results.append("no device is set on this thread" in acl.message())
        acl("aclrtSetDevice", 2)
        acl("aclrtGetDevice", ctypes.byref(device))
        results.append(device.value)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join(30)
    device = ctypes.c_int(-1)
    acl("aclrtGetDevice", ctypes.byref(device))
    assert results == [CONTEXT_NULL, True, 2] and device.value == 0


def test_context_can_be_handed_to_another_thread():
    acl = Acl()
    acl.initialize(1)
    context, seen = ctypes.c_void_p(), []
    acl("aclrtGetCurrentContext", ctypes.byref(context))

    def use():
        acl("aclrtSetCurrentContext", context)
        device = ctypes.c_int(-1)
        acl("aclrtGetDevice", ctypes.byref(device))
        seen.append(device.value)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join(30)
    assert seen == [1]
    with raises(CONTEXT_NULL, "not a context"):
        acl("aclrtSetCurrentContext", ctypes.c_void_p(16))


def test_initialisation_and_finalisation_tell_repetitions():
    script_output("""
        assert acl.code("aclFinalize") == 100001
        acl.initialize()
        assert acl.code("aclInit", None) == REPEAT_INITIALIZE
        stream = acl.create_stream()
        acl("aclFinalize")
        assert acl.code("aclFinalize") == 100037
        assert acl.code("aclrtSynchronizeStream", stream) == INVALID_HANDLE
        device = ctypes.c_int()
        assert acl.code("aclrtGetDevice", ctypes.byref(device)) == CONTEXT_NULL
        acl.initialize()                       # and it works again
        acl.create_stream()
    """)


def test_reset_device_counts_uses_and_ends_its_streams():
    script_output("""
        acl("aclrtSetDevice", 0)
        acl("aclrtSetDevice", 0)
        stream = acl.create_stream()
        acl("aclrtResetDevice", 0)
        active = ctypes.c_int()
        acl("aclrtGetPrimaryCtxState", 0, None, ctypes.byref(active))
        assert active.value == 1
        acl("aclrtResetDevice", 0)
        acl("aclrtGetPrimaryCtxState", 0, None, ctypes.byref(active))
        assert active.value == 0
        acl("aclrtSetDevice", 0)
        with raises(INVALID_HANDLE):
            acl("aclrtSynchronizeStream", stream)
    """)


def test_message_is_read_once_and_the_last_error_is_kept_apart():
    acl = Acl()
    acl.initialize()
    acl.code("aclrtGetLastError", 0)
    assert acl.code("aclrtSetDevice", 99) == INVALID_DEVICE
    assert "device 99 does not exist" in acl.message() and acl.message() == ""
    assert acl.code("aclrtPeekAtLastError", 0) == INVALID_DEVICE
    assert [acl.code("aclrtGetLastError", 0) for _ in range(2)] == [INVALID_DEVICE, 0]


def test_repeated_initialisation_code_is_the_documented_one():
    acl = Acl()
    acl.initialize()
    assert acl.code("aclInit", None) == REPEAT_INITIALIZE
    assert "already initialised" in acl.message()


def test_facts_of_the_chip():
    acl = Acl()
    acl.initialize()
    assert acl.lib.aclrtGetSocName() == b"Ascend910B1"
    value, version = ctypes.c_int64(), ctypes.create_string_buffer(128)
    acl("aclGetDeviceCapability", 0, 1, ctypes.byref(value))
    assert value.value == 48
    acl("aclsysGetVersionStr", b"runtime", version)
    assert re.fullmatch(rb"\d+\.\d+\.\d+", version.value)
    with raises(NOT_SUPPORTED, "999"):
        acl("aclrtGetDeviceInfo", 0, 999, ctypes.byref(value))
    identifiers = set()
    for device in range(4):
        raw = ctypes.create_string_buffer(16)
        acl("aclrtDeviceGetUuid", device, raw)
        identifiers.add(raw.raw)
    assert len(identifiers) == 4


def test_options_and_parameters_are_remembered():
    acl = Acl()
    acl.initialize()
    deterministic = 11
    acl("aclSetCompileopt", deterministic, b"0")
    size = acl.lib.aclGetCompileoptSize(deterministic)
    text = ctypes.create_string_buffer(size)
    acl("aclGetCompileopt", deterministic, text, ctypes.c_size_t(size))
    assert text.value == b"0"
    with raises(INVALID_PARAM, "no room"):
        acl("aclGetCompileopt", deterministic, text, ctypes.c_size_t(1))
    value = ctypes.c_int64(-1)
    acl("aclrtGetSysParamOpt", 2, ctypes.byref(value))
    assert value.value == 0  # never set
    acl("aclrtSetSysParamOpt", 0, ctypes.c_int64(1))
    acl("aclrtGetSysParamOpt", 0, ctypes.byref(value))
    assert value.value == 1
    limit, stream = ctypes.c_uint32(), acl.create_stream()
    acl("aclrtSetStreamResLimit", stream, 0, 5)
    acl("aclrtUseStreamResInCurrentThread", stream)
    acl("aclrtGetResInCurrentThread", 0, ctypes.byref(limit))
    assert limit.value == 5
    acl("aclrtUnuseStreamResInCurrentThread", stream)
    acl("aclrtGetResInCurrentThread", 0, ctypes.byref(limit))
    assert limit.value == 24
    acl("aclrtDestroyStream", stream)


def test_utilisation_is_measured():
    script_output("""
        acl.initialize()
        rates = (ctypes.c_int32 * 6)()
        acl("aclrtGetDeviceUtilizationRate", 0, rates)
        pause = threading.Event()
        work = HostFunction(lambda: pause.wait(0.2))
        stream, half = acl.create_stream(), acl.malloc(acl.memory()[1] // 2)
        work.launch(acl, stream)
        acl("aclrtSynchronizeStream", stream)
        acl("aclrtGetDeviceUtilizationRate", 0, rates)
        assert rates[0] > 20 and 49 <= rates[3] <= 51, list(rates)
        acl("aclrtGetDeviceUtilizationRate", 0, rates)
        assert rates[0] == 0, list(rates)
    """)


@pytest.mark.parametrize(
    "call", ["aclopCompileAndExecute", "aclmdlRICaptureBegin", "rtKernelLaunch", "aclmdlInitDump", "StressDetect"]
)
def test_what_is_not_emulated_says_so(call):
    acl = Acl()
    acl.initialize()
    arguments = [b"SomeOperator"] if call == "aclopCompileAndExecute" else []
    assert acl.code(call, *arguments, *[None] * 11) != 0
    message = acl.message()
    assert call in message and ("SomeOperator" in message or "emulator" in message or "hardware" in message)


def test_compiled_operators_keep_their_descriptions():
    acl = Acl()
    create = acl.lib.aclCreateTensorDesc
    create.restype = ctypes.c_void_p
    dims = (ctypes.c_int64 * 3)(2, 3, 4)
    description = ctypes.c_void_p(create(1, 3, dims, 2))
    size = ctypes.c_int64()
    acl("aclGetTensorDescDimV2", description, ctypes.c_size_t(2), ctypes.byref(size))
    assert size.value == 4 and acl.code("aclGetTensorDescType", description) == 1
    with raises(INVALID_PARAM):
        acl("aclGetTensorDescDimV2", description, ctypes.c_size_t(3), ctypes.byref(size))
    acl.lib.aclDestroyTensorDesc(description)
