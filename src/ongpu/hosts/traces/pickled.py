"""Plain data out of a pickle, without unpickling: no class is looked up and nothing is called, whatever the file says.

It knows the instructions that numbers, texts, lists, tuples and dicts are written with (pickle protocols 2 to 5, as
`torch.cuda.memory._dump_snapshot` uses them: https://docs.pytorch.org/docs/stable/torch_cuda_memory.html), and refuses every
other. Why not `pickle.Unpickler` with a `find_class` that refuses: its memo grows to whatever index a file names, and a length
of terabytes is allocated before it is read. Why not `pickletools`: it takes as long only to list the instructions.
"""

import pickletools
import struct
from collections.abc import Callable
from typing import Any

CHUNK = 4 << 20
MAX_TEXT = 1 << 20  # bytes of one text
MAX_BYTES = 2 << 30  # of the file
MAX_CONTAINERS = 8_000_000
MAX_VALUES = 60_000_000  # items put into containers
MAX_NUMBER = 64  # bytes of one integer
_KEYS = frozenset({str, int, bytes, bool, type(None), float})  # a tuple nested a million deep cannot even be hashed


class Refused(ValueError):
    """Why this pickle is not read, in both languages."""

    def __init__(self, english: str, chinese: str) -> None:
        super().__init__(english)
        self.english, self.chinese = english, chinese


def _refused(code: int, at: int) -> Refused:
    known = {ord(op.code): op.name for op in pickletools.opcodes}
    name = known.get(code, f"0x{code:02x}")
    return Refused(
        f"a pickle with more than plain data ({name} at byte {at}): unpickling it would run code, so it is not read",
        f"该 pickle 不只含普通数据（字节 {at} 处的 {name}）：反序列化会执行代码，因此不读取",
    )


_DAMAGED = Refused("damaged pickle: it ends too early or does not fit together", "pickle 已损坏：内容不完整或前后不一致")
_TOO_LARGE = Refused("a pickle of more objects than a memory snapshot has: not read", "pickle 中的对象数量超出内存快照应有的规模：不读取")


def load(read: Callable[[int], bytes]) -> Any:
    """The object: None, bool, int, float, str, bytes, and tuples, lists and dicts of these. Refused for anything else."""
    try:
        return _run(read)
    except (IndexError, KeyError, TypeError, struct.error, UnicodeDecodeError, OverflowError, MemoryError):
        raise _DAMAGED from None


def _run(read: Callable[[int], bytes]) -> Any:  # one machine, one loop: calls would make it three times slower
    data, at, passed, ended = b"", 0, 0, False
    edge = 0  # beyond it the next instruction might not be whole
    stack: list[Any] = []
    marks: list[list[Any]] = []
    memo: dict[int, Any] = {}
    containers = values = 0
    number, double = struct.Struct("<i").unpack_from, struct.Struct(">d").unpack_from
    push = stack.append
    while True:
        if at >= edge and not ended:
            passed += at
            block = read(CHUNK)
            data, at, ended = data[at:] + block, 0, not block
            edge = len(data) - MAX_TEXT - 16
            if passed > MAX_BYTES:
                raise _TOO_LARGE
            continue
        code = data[at]
        at += 1
        if code == 0x68:  # BINGET
            push(memo[data[at]])
            at += 1
        elif code == 0x6A:  # LONG_BINGET
            push(memo[int.from_bytes(data[at : at + 4], "little")])
            at += 4
        elif code == 0x94:  # MEMOIZE
            memo[len(memo)] = stack[-1]
        elif code == 0x4B:  # BININT1
            push(data[at])
            at += 1
        elif code == 0x4D:  # BININT2
            push(data[at] | data[at + 1] << 8)
            at += 2
        elif code == 0x4A:  # BININT
            push(number(data, at)[0])
            at += 4
        elif code == 0x8A:  # LONG1
            size = data[at]
            if size > MAX_NUMBER:
                raise _DAMAGED
            push(int.from_bytes(data[at + 1 : at + 1 + size], "little", signed=True))
            at += 1 + size
        elif code == 0x28:  # MARK
            marks.append(stack)
            stack = []
            push = stack.append
            if len(marks) > 500:
                raise Refused("nested too deeply", "嵌套过深")
        elif code == 0x75:  # SETITEMS
            items, stack = stack, marks.pop()
            push = stack.append
            target = stack[-1]
            if type(target) is not dict or len(items) % 2 or not _KEYS.issuperset(map(type, items[::2])):
                raise _DAMAGED
            target.update(zip(items[::2], items[1::2], strict=True))
            values += len(items)
        elif code == 0x65:  # APPENDS
            items, stack = stack, marks.pop()
            push = stack.append
            if type(stack[-1]) is not list:
                raise _DAMAGED
            stack[-1].extend(items)
            values += len(items)
        elif code in (0x5D, 0x7D, 0x29):  # EMPTY_LIST, EMPTY_DICT, EMPTY_TUPLE
            push([] if code == 0x5D else {} if code == 0x7D else ())
            containers += 1
            if containers > MAX_CONTAINERS or values > MAX_VALUES:
                raise _TOO_LARGE
        elif code == 0x8C or code == 0x58:  # SHORT_BINUNICODE, BINUNICODE
            if code == 0x8C:
                size, at = data[at], at + 1
            else:
                size, at = int.from_bytes(data[at : at + 4], "little"), at + 4
            if size > MAX_TEXT or at + size > len(data):
                raise _DAMAGED
            push(data[at : at + size].decode("utf-8", "surrogatepass"))
            at += size
            values += 1
        elif code == 0x71 or code == 0x72:  # BINPUT, LONG_BINPUT
            size = 1 if code == 0x71 else 4
            memo[int.from_bytes(data[at : at + size], "little")] = stack[-1]
            at += size
        elif code == 0x4E:  # NONE
            push(None)
        elif code in (0x88, 0x89):  # NEWTRUE, NEWFALSE
            push(code == 0x88)
        elif code == 0x47:  # BINFLOAT
            push(double(data, at)[0])
            at += 8
        elif code == 0x95:  # FRAME: a mere length
            at += 8
        elif code == 0x61:  # APPEND
            item = stack.pop()
            if type(stack[-1]) is not list:
                raise _DAMAGED
            stack[-1].append(item)
            values += 1
        elif code == 0x73:  # SETITEM
            item, key = stack.pop(), stack.pop()
            if type(stack[-1]) is not dict or type(key) not in _KEYS:
                raise _DAMAGED
            stack[-1][key] = item
            values += 1
        elif code in (0x85, 0x86, 0x87):  # TUPLE1 to TUPLE3
            size = code - 0x84
            if len(stack) < size:
                raise _DAMAGED
            stack[-size:] = [tuple(stack[-size:])]
            containers += 1
            if containers > MAX_CONTAINERS:
                raise _TOO_LARGE
        elif code == 0x74:  # TUPLE
            items, stack = stack, marks.pop()
            push = stack.append
            push(tuple(items))
            containers += 1
            values += len(items)
            if containers > MAX_CONTAINERS or values > MAX_VALUES:
                raise _TOO_LARGE
        elif code in (0x43, 0x42):  # SHORT_BINBYTES, BINBYTES
            width = 1 if code == 0x43 else 4
            size, at = int.from_bytes(data[at : at + width], "little"), at + width
            if size > MAX_TEXT or at + size > len(data):
                raise _DAMAGED
            push(data[at : at + size])
            at += size
            values += 1
        elif code == 0x80:  # PROTO
            if not 2 <= data[at] <= 5:
                raise _DAMAGED
            at += 1
        elif code == 0x2E:  # STOP
            if len(stack) != 1 or marks:
                raise _DAMAGED
            return stack[0]
        else:
            raise _refused(code, passed + at - 1)
        if len(stack) > MAX_VALUES:
            raise _TOO_LARGE
