"""Kernel AST with lanes → one LLVM function."""
from __future__ import annotations

from ..errors import IRError
from ..uop import Op, UOp, loop_key
from ..uop.linear import linear
from .phases import Phases, vector_axis
from .values import Scope, sorted_lanes

SPARE = 512      # bytes of the blocks that masked accesses read from or write to


class Lower(Phases):
    """The whole kernel: its stores, then the frame of the function."""

    def stores(self, root: Scope) -> None:
        """Every run of STOREs over the same loops shares one nest."""
        groups: list[tuple[tuple[UOp, ...], list[UOp]]] = []
        for st in self.ast.src:
            loops = tuple(sorted((r for r in st.free if not r.arg.kind.is_lane), key=loop_key))
            if groups and groups[-1][0] == loops:
                groups[-1][1].append(st)
            else:
                groups.append((loops, [st]))
        for loops, group in groups:
            vec = vector_axis({a for st in group for a in st.free})

            def body(s: Scope, group: list[UOp] = group, vec: UOp | None = vec) -> None:
                for st in group:
                    self._store(st, s, vec)
            self.nest(loops, root, tuple(group), body)

    def _store(self, st: UOp, s: Scope, vec: UOp | None) -> None:
        index, value = st.src
        free = st.free
        along = vec if vec in free else None
        lanes = tuple(a for a in sorted_lanes(free) if a is not along)
        valid = index.src[2] if len(index.src) > 2 else None
        for need in (*self.atoms(index.src[1]), *(self.mask_needs(valid) if valid is not None else ())):
            self.get(need, s, along)
        self.streaming = bool(st.arg) and valid is None and self.lines_aligned(index.src[1], along)
        self.fenced |= self.streaming
        self.store(index.src[0], index.src[1], valid, self.get(value, s, along), lanes, s, along)
        self.streaming = False

    def lines_aligned(self, idx: UOp, along: UOp | None) -> bool:
        """Every register goes to an address that is a multiple of its size."""
        c0, terms = linear(idx)
        return along is not None and terms.get(along) == 1 and along.arg.extent % self.width == 0 and c0 % self.width == 0 and all(
            k % self.width == 0 for r, k in terms.items() if r is not along)

    def function(self, name: str) -> tuple[str, int]:
        """LLVM IR of the kernel as `void name(ptr args, i64 start, i64 end, ptr scratch)`, and the number of its arguments."""
        if self.ast.op is not Op.SINK:
            raise IRError(f"a kernel is a SINK of STOREs, not {self.ast.op}")
        root = Scope(None)
        self.stores(root)
        n = 1 + max(u.arg.slot for u in self.ast.toposort() if u.op is Op.PARAM)
        params = ", ".join([f"ptr noalias %p{i}" for i in range(n)] + ["i64 %start", "i64 %end", "ptr noalias %scratch"])
        unpack = [line for i in range(n) for line in (f"  %a{i} = getelementptr ptr, ptr %args, i64 {i}", f"  %p{i} = load ptr, ptr %a{i}, align 8")]
        actual = ", ".join([f"ptr %p{i}" for i in range(n)] + ["i64 %start", "i64 %end", "ptr %scratch"])
        lines = [f"@zeros = private constant [{SPARE} x i8] zeroinitializer, align 64", "",
                 f"define internal void @body({params}) noinline nounwind {{", "entry:", f"  %trash = alloca [{SPARE} x i8], align 64",
                 *self.entry, *root.lines, *(["  fence seq_cst"] if self.fenced else []), "  ret void", "}", "",
                 f"define void @{name}(ptr %args, i64 %start, i64 %end, ptr %scratch) nounwind {{", *unpack,
                 f"  call void @body({actual})", "  ret void", "}", "", *sorted(self.decls), *(["!0 = !{i32 1}"] if self.fenced else []), ""]
        return "\n".join(lines), n
