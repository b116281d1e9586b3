"""The whole IR on one screen: the ops of the tensor graph and of the kernel AST, and the kinds of loop axes."""
from __future__ import annotations

from enum import Enum, IntEnum, auto
from typing import NamedTuple

from ..variable import Variable


class Op(Enum):
    """What a node does. `x`, `y`: source nodes; `arg`: the constant that goes with the op; `S`: shape."""
    # leaves of both levels
    CONST = auto()        # ()                 arg: value of the dtype; scalar, shape ()
    # ---- tensor graph: nodes have a shape -------------------------------------------------------
    BUFFER = auto()       # ()                 arg: BufferArg(uid, shape, device); contiguous row-major memory
    IOTA = auto()         # ()                 arg: n; values 0..n-1, shape (n,), any integer dtype
    RESHAPE = auto()      # (x)                arg: new shape
    PERMUTE = auto()      # (x)                arg: axes; out.shape[i] = x.shape[axes[i]]
    EXPAND = auto()       # (x)                arg: new shape; axes of size 1 are repeated
    PAD = auto()          # (x)                arg: ((before, after), ...); zeros outside
    SHRINK = auto()       # (x)                arg: ((start, step, count), ...); out[i] = x[start + i*step], step > 0
    FLIP = auto()         # (x)                arg: axes to reverse
    WINDOW = auto()       # (x)                arg: ((axis, kernel, stride, dilation), ...), each axis once; the axis becomes the count of
    #                                          windows that lie inside x, and one axis of size `kernel` per entry follows at the end:
    #                                          out[.., o, .., k] = x[.., o*stride + k*dilation, ..]
    CAT = auto()          # (x, y, ...)        arg: axis
    REDUCE_AXES = auto()  # (x)                arg: (Op.ADD|MUL|MAX|MIN, axes); reduced axes stay with size 1; dtype kept
    SCAN_AXIS = auto()    # (x)                arg: (Op.ADD|MUL|MAX|MIN, axis); inclusive prefix reduction
    GATHER = auto()       # (x, i0, .., in-1)  out[s] = x[i0[s], .., in-1[s]]; one int index per axis of x, all of shape S;
    #                                          0 where any index is outside 0..size-1 (no wrap here)
    CONTIGUOUS = auto()   # (x)                must be stored: a kernel boundary asked for by the user
    ASSIGN = auto()       # (buffer, x)        store x into an existing buffer, value is the buffer afterwards
    COPY = auto()         # (x)                arg: device
    # ---- kernel AST: scalars over ranges -------------------------------------------------------
    PARAM = auto()        # ()                 arg: ParamArg(slot, size); dtype of the elements
    RANGE = auto()        # ()                 arg: Axis; dtype index
    INDEX = auto()        # (buf, idx[, valid]) buf: PARAM or STAGE; an address. Under valid=False nothing is touched
    LOAD = auto()         # (INDEX)            value at the address; 0 where valid is False
    STORE = auto()        # (INDEX, value)     void; arg: True to write past the caches
    REDUCE = auto()       # (x, *ranges)       arg: Op.ADD|MUL|MAX|MIN; closes its ranges
    SCAN = auto()         # (x, *ranges)       arg: Op; value at a place = reduction of x up to there; ranges: outer and lanes of one axis, not closed
    STAGE = auto()        # (x, widx, *ranges) arg: StageArg(where, size); x stored at widx for all ranges (closed); read by INDEX
    SINK = auto()         # (STORE, ...)       the kernel; void
    # ---- elementwise: sources and result have one shape (tensor graph) or are scalars (kernel AST) ----
    CAST = auto()         # (x)                float->int saturates, NaN -> 0; int->int wraps; any->bool is x != 0
    BITCAST = auto()      # (x)                same itemsize
    NEG = auto()
    ABS = auto()
    SQRT = auto()         # correctly rounded
    EXP = auto()
    EXP2 = auto()
    LOG = auto()
    LOG2 = auto()
    SIN = auto()
    COS = auto()
    TAN = auto()
    TANH = auto()
    ERF = auto()
    FLOOR = auto()
    CEIL = auto()
    TRUNC = auto()
    RINT = auto()         # to nearest, ties to even
    NOT = auto()          # bool: logical; int: bitwise
    ADD = auto()          # bool ADD is OR
    SUB = auto()
    MUL = auto()          # bool MUL is AND
    DIV = auto()          # floats only, IEEE
    IDIV = auto()         # integers, floor; x // 0 is 0; INT_MIN // -1 wraps
    MOD = auto()          # integers: sign of the divisor, x % 0 is 0; floats: Python's %
    POW = auto()          # floats: C pow
    MAX = auto()          # NaN if either is NaN
    MIN = auto()
    AND = auto()          # bool and integers
    OR = auto()
    XOR = auto()
    SHL = auto()          # a shift at or over the width, or negative, gives 0 (SHR of a negative: -1)
    SHR = auto()          # arithmetic for signed, logical for unsigned
    CMPLT = auto()        # -> bool; IEEE: false on NaN
    CMPLE = auto()
    CMPEQ = auto()
    CMPNE = auto()        # true on NaN
    WHERE = auto()        # (cond, x, y)
    FMA = auto()          # (x, y, z)          x*y+z rounded once; floats

    __hash__ = object.__hash__   # members are unique objects; the default hashes the name, in Python

    def __repr__(self) -> str:
        return f"Op.{self.name}"


class AxisKind(IntEnum):
    """How a range runs. The order is the nesting, outermost first; UPCAST, UNROLL and CHAIN are lanes, not loops."""
    THREAD = 0    # chunks of an output loop on several cores
    LOOP = 1      # output loop
    SCAN = 2      # loop of a prefix reduction: runs upwards, in one thread
    REDUCE = 3    # reduction loop
    LOCAL = 4     # inner block of an output axis, run inside the reduction loops
    RLOCAL = 5    # inner block of a reduction axis, run inside the LOCAL loops
    UPCAST = 6    # lanes of an output (or scan) axis
    UNROLL = 7    # lanes of a reduction axis, one accumulator each
    CHAIN = 8     # lanes of a reduction axis, all into one accumulator

    @property
    def is_lane(self) -> bool:
        return self >= AxisKind.UPCAST


class Axis(NamedTuple):
    """The argument of a RANGE.

    id: number of the tensor axis it walks. Ranges of successive phases over the same tensor axis share it, so one action moves them all.
    phase: tells such ranges apart.  order: nesting key among ranges of one kind; a split appends 0 (outer) or 1 (inner).
    vector: this lane axis is the one that lies in vector registers.
    """
    id: int
    phase: int
    order: tuple[int, ...]
    extent: int
    kind: AxisKind
    vector: bool = False


class ParamArg(NamedTuple):
    """A kernel argument: `size` elements of the PARAM's dtype."""
    slot: int
    size: int


class BufferArg(NamedTuple):
    """Memory that outlives a kernel, or the value of a Variable. uid: a number, negative inside a schedule, or the variable."""
    uid: int | Variable
    shape: tuple[int, ...]
    device: str


class Where(Enum):
    """Where a STAGE keeps its value."""
    GLOBAL = auto()   # a buffer in memory: a kernel boundary
    LOCAL = auto()    # scratch inside the kernel
    INLINE = auto()   # nowhere: recomputed at each use


class StageArg(NamedTuple):
    where: Where
    size: int


class GroupOp:
    """Sets of ops that rules speak about."""
    MOVEMENT = frozenset({Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.PAD, Op.SHRINK, Op.FLIP, Op.WINDOW})
    UNARY = frozenset({Op.CAST, Op.BITCAST, Op.NEG, Op.ABS, Op.SQRT, Op.EXP, Op.EXP2, Op.LOG, Op.LOG2, Op.SIN, Op.COS, Op.TAN, Op.TANH, Op.ERF,
                       Op.FLOOR, Op.CEIL, Op.TRUNC, Op.RINT, Op.NOT})
    COMPARE = frozenset({Op.CMPLT, Op.CMPLE, Op.CMPEQ, Op.CMPNE})
    BINARY = frozenset({Op.ADD, Op.SUB, Op.MUL, Op.DIV, Op.IDIV, Op.MOD, Op.POW, Op.MAX, Op.MIN, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR}) | COMPARE
    TERNARY = frozenset({Op.WHERE, Op.FMA})
    ALU = UNARY | BINARY | TERNARY
    TRANSCENDENTAL = frozenset({Op.EXP, Op.EXP2, Op.LOG, Op.LOG2, Op.SIN, Op.COS, Op.TAN, Op.TANH, Op.ERF, Op.POW})
    COMMUTATIVE = frozenset({Op.ADD, Op.MUL, Op.MAX, Op.MIN, Op.AND, Op.OR, Op.XOR, Op.CMPEQ, Op.CMPNE})
    REDUCIBLE = frozenset({Op.ADD, Op.MUL, Op.MAX, Op.MIN})


def identity(op: Op, lowest: bool | int | float, highest: bool | int | float) -> bool | int | float:
    """The neutral element of a reduction, given the dtype's lowest and highest value."""
    return {Op.ADD: 0, Op.MUL: 1, Op.MAX: lowest, Op.MIN: highest}[op]
