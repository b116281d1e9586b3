"""The rewrite driver: applies a rule table to a graph until nothing changes; iterative, each node once."""
from __future__ import annotations

import sys
from collections import Counter

from ..errors import IRError
from .node import UOp
from .pattern import Rules

TRACE = 4                                             # debug level that prints each rewrite


def rewrite(root: UOp, rules: Rules, *, bottom_up: bool = True, name: str = "rewrite", limit: int | None = None, debug: int = 0) -> UOp:
    """The graph after `rules` reached a fixed point.

    bottom_up: sources are done before a rule sees the node; else rules see a node first, then what is below it. A rule's result is itself rewritten.
    limit: most rewrites allowed (by default 1,000 and 100 a node); IRError names the rules that go on for ever. debug: 4 and over print each rewrite.
    """
    return _Driver(rules, bottom_up, name, limit or 1000 + 100 * len(root.toposort()), debug).run(root)


class _Driver:
    def __init__(self, rules: Rules, bottom_up: bool, name: str, limit: int, debug: int) -> None:
        self.rules, self.bottom_up, self.name, self.limit, self.debug = rules, bottom_up, name, limit, debug
        self.done: dict[UOp, UOp] = {}
        self.next: dict[UOp, UOp] = {}                # a node became this one, which is not done yet
        self.used: list[str] = []

    def run(self, root: UOp) -> UOp:
        stack, waiting = [root], set[UOp]()
        while stack:
            u = stack[-1]
            wait = [] if u in self.done else self._advance(u)
            if not wait:
                stack.pop()
                continue
            waiting.add(u)
            if any(v in waiting and v not in self.done for v in wait):
                self._fail(u)
            stack.extend(reversed(wait))
        return self.done[root]

    def _advance(self, u: UOp) -> list[UOp]:
        """The nodes that `u` waits for; none when it is done."""
        if (v := self.next.get(u)) is not None:
            if v not in self.done:
                return [v]
            self.done[u] = self.done[v]
            return []
        if not self.bottom_up and self._apply(u):
            return [self.next[u]]
        wait = [s for s in u.src if s not in self.done]
        if wait:
            return wait
        src = tuple(self.done[s] for s in u.src)
        if src != u.src:
            self.next[u] = UOp(u.op, u.dtype, src, u.arg)
            return [self.next[u]]
        if self.bottom_up and self._apply(u):
            return [self.next[u]]
        self.done[u] = u
        return []

    def _apply(self, u: UOp) -> bool:
        found = self.rules.find(u)
        if found is None:
            return False
        v, rule = found
        self.used.append(rule)
        if self.debug >= TRACE:
            print(f"{self.name}: {rule}: {_brief(u)} -> {_brief(v)}", file=sys.stderr)
        if len(self.used) > self.limit:
            self._fail(u)
        self.next[u] = v
        return True

    def _fail(self, u: UOp) -> None:
        recent = Counter(self.used[-50:]).most_common(4)
        raise IRError(f"{self.name} does not end: {', '.join(r for r, _ in recent)} at {_brief(u)}")


def _brief(u: UOp) -> str:
    arg = "" if u.arg is None else f"[{u.arg}]"
    return f"{u.op.name}{arg}({', '.join(s.op.name if s.src else f'{s.op.name}[{s.arg}]' for s in u.src)})"
