"""Compiles kernels to PTX with the NVRTC of the PyPI wheel; needs neither a GPU nor a CUDA toolkit.

usage: nvrtc.py OUT_FOLDER SOURCE.cu ... -- OPTION ...
"""

import ctypes
import importlib.util
import pathlib
import sys


def load():
    package = importlib.util.find_spec("nvidia.cuda_nvrtc")
    folder = pathlib.Path(next(iter(package.submodule_search_locations))) / "lib"
    return ctypes.CDLL(str(next(folder.glob("libnvrtc.so.*"))))


def text_of(nvrtc, program, what):
    size = ctypes.c_size_t()
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, text)
    return text.value.decode()


def compile_kernels(nvrtc, source, options):
    program = ctypes.c_void_p()
    name = source.name.encode()
    if nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.read_bytes(), name, 0, None, None) != 0:
        sys.exit(f"{source}: NVRTC cannot make a program of it")
    options = [option.encode() for option in options]
    failed = nvrtc.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options)) != 0
    log = text_of(nvrtc, program, "ProgramLog")
    if log:
        print(log, file=sys.stderr)
    if failed:
        sys.exit(f"{source}: compilation failed")
    return text_of(nvrtc, program, "PTX")


def main(arguments):
    at = arguments.index("--")
    out, sources, options = pathlib.Path(arguments[0]), arguments[1:at], arguments[at + 1 :]
    nvrtc = load()
    for source in map(pathlib.Path, sources):
        include = f"--include-path={source.parent}"
        (out / source.with_suffix(".ptx").name).write_text(compile_kernels(nvrtc, source, [*options, include]))


if __name__ == "__main__":
    main(sys.argv[1:])
