"""What the rules choose for each family of kernels on a machine with 8 lanes, 16 registers and two threads."""
import pytest
from kernels import (KERNELS, conv, elementwise, matmul, max_columns, prefix, row_shares, row_times_matrix, softmax, softmax_columns, sum_rows, transpose)

from morok.optimizer import apply_opts, flops_bytes, hand_coded
from morok.optimizer.kernel import Kernel
from morok.target import Target
from morok.uop import ranges

TARGET = Target(threads=2)


def chosen(kernel, target=TARGET, aligned=False):
    return " ".join(map(str, hand_coded(kernel[0], target, aligned)))


@pytest.mark.parametrize("kernel,text", [
    (elementwise(512, 1024), "UPCAST(1,32,1) THREAD(0)"),
    (elementwise(4, 16), "UPCAST(1,16,1)"),                                                   # too small for threads
    (elementwise(40, 1021), "PADTO(1,32) UPCAST(1,32,1)"),
    (sum_rows(1024, 1024), "UNROLL(1,8,1) UPCAST(0,4,0) THREAD(0)"),                          # four streams from memory
    (sum_rows(1, 4096), "UNROLL(1,64,1)"),                                                    # one: more accumulators
    (sum_rows(5000, 3), "UPCAST(0,8,1) CHAIN(1,3)"),                                          # short rows: one a lane
    (max_columns(1024, 4096), "UPCAST(0,32,1) CHAIN(1,8) LOCAL(0,64) THREAD(0)"),
    (row_times_matrix(2048, 2048), "UPCAST(0,32,1) CHAIN(1,8) LOCAL(0,32) THREAD(0)"),
    (softmax(1024, 1024), "UNROLL(1,32,1) UPCAST(1,32,1) THREAD(0)"),
    (softmax(10000, 10), "UPCAST(0,8,1) CHAIN(1,10) THREAD(0)"),
    (softmax_columns(1024, 1024), "UPCAST(1,32,1) CHAIN(0,2) THREAD(1)"),
    (row_shares(1024, 512), "UNROLL(2,64,1) UPCAST(1,32,1) THREAD(0)"),
    (matmul(512, 512, 512), "PADTO(0,6) UPCAST(0,6,0) UPCAST(1,16,1) CHAIN(2,2) SWAP(0,1) THREAD(1) STAGE(2,1)"),
    (matmul(4, 8, 8), "UPCAST(0,4,0) UPCAST(1,8,1) CHAIN(2,2)"),
    (conv(64, 56, 64), "UPCAST(0,16,1) UPCAST(2,4,0) CHAIN(4,3) THREAD(0) STAGE(2,0)"),       # lanes on channels
    (transpose(512, 512), "UPCAST(1,16,1) UPCAST(0,8,0) SWAP(0,1) THREAD(1)"),                # whole registers both ways
    (prefix(512, 1024), "UPCAST(1,32,1) THREAD(0)")])
def test_choice(kernel, text):
    assert chosen(kernel) == text


def test_tile_fills_the_registers_of_the_machine():
    wide = Target(vector_bytes=64, registers=32, threads=1)
    opts = chosen(matmul(960, 960, 960), wide)
    lanes = [r.arg.extent for r in ranges(apply_opts(matmul(960, 960, 960)[0], hand_coded(matmul(960, 960, 960)[0], wide))) if r.arg.kind.is_lane and not r.arg.vector]
    assert "THREAD" not in opts and "UPCAST(1,32,1)" in opts and max(lanes) >= 12


@pytest.mark.parametrize("target", [Target(), Target(vector_bytes=16, threads=4), Target(vector_bytes=64, registers=32, threads=64)])
def test_every_choice_applies(target):
    for name, make in KERNELS.items():
        ast, _ = make()
        opts = hand_coded(ast, target)
        assert apply_opts(ast, opts) is apply_opts(ast, opts), name


def test_stream_only_to_aligned_large_outputs():
    large = elementwise(2048, 2048)
    assert "STREAM(0)" in chosen(large, aligned=True) and "STREAM" not in chosen(large)
    assert "STREAM" not in chosen(elementwise(64, 64), aligned=True)


def test_view_of_a_kernel():
    ast, _ = matmul(12, 16, 24)
    k = Kernel(ast)
    i, j = k.outputs
    c, = k.reduces[0].src[1:]
    assert [r.arg.extent for r in (i, j, c)] == [12, 16, 24] and k.iterations == 12 * 16
    assert [(a.buffer.arg.slot, a.strides, a.opaque) for a in k.loads] == [(1, {i: 24, c: 1}, False), (2, {c: 16, j: 1}, False)]
    assert k.stores[0].strides == {i: 16, j: 1} and k.output(1) is j and k.output(7) is None


def test_operations_and_bytes_by_hand():
    assert flops_bytes(matmul(12, 16, 24)[0]) == (2 * 12 * 16 * 24 + 12 * 16, 4 * (12 * 16 + 12 * 24 + 24 * 16))      # products, sums, one maximum an element
    assert flops_bytes(sum_rows(12, 64)[0]) == (12 * 64, 4 * (12 + 12 * 64))
    assert flops_bytes(transpose(9, 13)[0]) == (0, 4 * 2 * 9 * 13)
