"""One GPU computes, by the driver's library alone: it fills memory with numbers, reads them back on the GPU, and works some out.

Run as a program, with the GPU as the only one in CUDA_VISIBLE_DEVICES; Python 3.8 syntax, standard library only. Prints one line,
"ongpu-compute " and JSON: {"ok": true, false or null, "error", "name", "mib", "seconds"}; null: it could not be tried (no driver library,
no memory free, a PTX that this driver does not take). Every number is exact on a sound GPU, so that any difference is a fault.

Written from the public CUDA driver API (cuda.h) and PTX ISA; assembled by NVIDIA's ptxas 12.9 for sm_50 to sm_120, never run on a GPU.
"""

import array
import ctypes
import json
import sys
import time
from typing import Any, Dict  # noqa: F401 - in type comments

LIBRARIES = ("libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", "/run/opengl-driver/lib/libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1")
MOST = 1 << 30  # bytes of memory that are filled; half of what is free, where that is less
LEAST = 1 << 20
WORDS = 1 << 16  # numbers that are worked out and compared one by one
THREADS = 256
FACTOR = 1664525  # of a linear congruential generator (Numerical Recipes)
ROUNDS = 16
# Codes (cuda.h: CUresult) that say that a call could not be tried here, rather than that the GPU is at fault.
NO_MEMORY, SET_UP = 2, (3, 34, 46, 100, 101, 200, 209, 218, 221, 222, 223, 300, 301, 302, 303, 304, 500, 800, 801, 802, 803, 804)
PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry fill(.param .u64 where, .param .u32 many, .param .u32 seed)
{
 .reg .pred %p; .reg .b32 %r<8>; .reg .b64 %d<4>;
 mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;
 ld.param.u32 %r4, [many]; setp.ge.u32 %p, %r1, %r4; @%p ret;
 ld.param.u32 %r5, [seed]; mad.lo.u32 %r6, %r1, 1664525, %r5;
 ld.param.u64 %d1, [where]; cvta.to.global.u64 %d1, %d1; mul.wide.u32 %d2, %r1, 4; add.u64 %d3, %d1, %d2;
 st.global.u32 [%d3], %r6;
 ret;
}
.visible .entry check(.param .u64 where, .param .u32 many, .param .u32 seed, .param .u64 bad)
{
 .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %d<5>;
 mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;
 ld.param.u32 %r4, [many]; setp.ge.u32 %p, %r1, %r4; @%p ret;
 ld.param.u32 %r5, [seed]; mad.lo.u32 %r6, %r1, 1664525, %r5;
 ld.param.u64 %d1, [where]; cvta.to.global.u64 %d1, %d1; mul.wide.u32 %d2, %r1, 4; add.u64 %d3, %d1, %d2;
 ld.global.u32 %r7, [%d3]; setp.eq.u32 %p, %r6, %r7; @%p ret;
 ld.param.u64 %d4, [bad]; cvta.to.global.u64 %d4, %d4; red.global.add.u32 [%d4], 1;
 ret;
}
.visible .entry work(.param .u64 where, .param .u32 many, .param .u32 rounds)
{
 .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %d<4>; .reg .f32 %f<3>;
 mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;
 ld.param.u32 %r4, [many]; setp.ge.u32 %p, %r1, %r4; @%p ret;
 ld.param.u32 %r5, [rounds]; mov.u32 %r6, %r1;
again:
 and.b32 %r7, %r6, 4095; cvt.rn.f32.u32 %f1, %r7; fma.rn.f32 %f2, %f1, 0f40400000, 0f3F800000; cvt.rzi.u32.f32 %r8, %f2;
 mad.lo.u32 %r6, %r6, 1664525, %r8;
 sub.u32 %r5, %r5, 1; setp.ne.u32 %p, %r5, 0; @%p bra again;
 ld.param.u64 %d1, [where]; cvta.to.global.u64 %d1, %d1; mul.wide.u32 %d2, %r1, 4; add.u64 %d3, %d1, %d2;
 st.global.u32 [%d3], %r6;
 ret;
}
\0"""


class Refused(Exception):
    """A call that the driver refused: its name and code."""

    def __init__(self, call, code, word):  # type: (str, int, str) -> None
        super().__init__("%s: %s (%d)" % (call, word, code))
        self.code = code


class Driver:
    """The driver's library; each function raises Refused."""

    def __init__(self):  # type: () -> None
        problem = OSError("no libcuda.so.1")
        for name in LIBRARIES:
            try:
                self.library = ctypes.CDLL(name)
                return
            except OSError as error:
                problem = error if name == LIBRARIES[0] else problem
        raise problem

    def call(self, name, *args):  # type: (str, *Any) -> None
        """One function of cuda.h."""
        code = getattr(self.library, name)(*args)
        if code:
            word = ctypes.c_char_p()
            self.library.cuGetErrorName(code, ctypes.byref(word))
            raise Refused(name, code, word.value.decode("ascii", "replace") if word.value else "error")

    def allocate(self, size):  # type: (int) -> ctypes.c_uint64
        """Device memory."""
        place = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(size))
        return place

    def launch(self, kernel, many, *args):  # type: (Any, int, *Any) -> None
        """A kernel with a thread for each of `many`; waited for."""
        places = (ctypes.c_void_p * len(args))(*[ctypes.cast(ctypes.pointer(arg), ctypes.c_void_p) for arg in args])
        blocks = (many + THREADS - 1) // THREADS
        self.call("cuLaunchKernel", kernel, blocks, 1, 1, THREADS, 1, 1, 0, None, places, None)
        self.call("cuCtxSynchronize")


def worked_out(many, rounds=ROUNDS):  # type: (int, int) -> array.array[int]
    """What `work` leaves, in numbers of 32 bits."""
    found = array.array("I", range(many))
    for _ in range(rounds):
        found = array.array("I", [(value * FACTOR + 3 * (value & 4095) + 1) & 0xFFFFFFFF for value in found])
    return found


def compute(answer):  # type: (Dict[str, Any]) -> None
    """Fills the answer; raises Refused, OSError."""
    driver = Driver()
    driver.call("cuInit", 0)
    device, context, module, name = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.create_string_buffer(100)
    driver.call("cuDeviceGet", ctypes.byref(device), 0)
    driver.call("cuDeviceGetName", name, 100, device)
    answer["name"] = name.value.decode("utf-8", "replace")
    driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    driver.call("cuCtxSetCurrent", context)
    driver.call("cuModuleLoadData", ctypes.byref(module), PTX)
    kernels = {}
    for kernel in ("fill", "check", "work"):
        kernels[kernel] = ctypes.c_void_p()
        driver.call("cuModuleGetFunction", ctypes.byref(kernels[kernel]), module, kernel.encode())
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    size = min(MOST, free.value // 2)
    if size < LEAST:
        raise Refused("cuMemGetInfo_v2", NO_MEMORY, "too little memory is free")
    many, counter, place = ctypes.c_uint32(size // 4), driver.allocate(4), driver.allocate(size)
    driver.call("cuMemsetD32_v2", counter, 0, ctypes.c_size_t(1))
    for seed in (0x00000000, 0xFFFFFFFF, 0x5A5A5A5A):
        driver.launch(kernels["fill"], many.value, place, many, ctypes.c_uint32(seed))
        driver.launch(kernels["check"], many.value, place, many, ctypes.c_uint32(seed), counter)
    bad = ctypes.c_uint32()
    driver.call("cuMemcpyDtoH_v2", ctypes.byref(bad), counter, ctypes.c_size_t(4))
    answer["mib"] = size >> 20
    if bad.value:
        answer.update(ok=False, error="%d of %d numbers came back wrong from its memory" % (bad.value, 3 * many.value))
        return
    driver.launch(kernels["work"], WORDS, place, ctypes.c_uint32(WORDS), ctypes.c_uint32(ROUNDS))
    result = (ctypes.c_uint32 * WORDS)()
    driver.call("cuMemcpyDtoH_v2", result, place, ctypes.c_size_t(4 * WORDS))
    wrong = sum(a != b for a, b in zip(result, worked_out(WORDS)))
    answer["ok"] = not wrong
    if wrong:
        answer["error"] = "%d of %d results are wrong" % (wrong, WORDS)


def main():  # type: () -> None
    """One try."""
    answer = {"ok": None, "error": "", "name": "", "mib": 0, "seconds": 0.0}  # type: Dict[str, Any]
    begin = time.time()
    try:
        compute(answer)
    except Refused as error:
        answer.update(ok=None if error.code == NO_MEMORY or error.code in SET_UP else False, error=str(error))
    except (OSError, AttributeError) as error:  # no library, or one without that function
        answer.update(ok=None, error=str(error))
    answer["seconds"] = round(time.time() - begin, 2)
    print("ongpu-compute " + json.dumps(answer))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
