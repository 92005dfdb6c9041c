"""``npurun`` and its parts. Installed as ``torch_npu.launcher``."""

if __name__ == "launcher":
    raise ImportError("import this package as torch_npu.launcher; 'launcher' is only the folder's name in the source tree")
