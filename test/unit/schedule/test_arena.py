"""The arena: buffers that live at the same time never overlap, and little is wasted."""
from hypothesis import given
from hypothesis import strategies as st

from morok.schedule.memory import ALIGN, Layout, Life, place

lives = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8), st.integers(0, 5000)).map(lambda x: Life(x[0], x[0] + x[1], x[2])), max_size=40)


@given(lives)
def test_what_lives_together_lies_apart(given_lives):
    layout = place(given_lives)
    ends = [o + s.size for o, s in zip(layout.offsets, given_lives, strict=True)]
    assert all(o % ALIGN == 0 for o in layout.offsets) and layout.size % ALIGN == 0 and max(ends, default=0) <= layout.size
    for i, a in enumerate(given_lives):
        for j, b in enumerate(given_lives[:i]):
            if a.first <= b.last and b.first <= a.last and a.size and b.size:
                assert layout.offsets[i] >= ends[j] or layout.offsets[j] >= ends[i]


@given(lives)
def test_not_much_more_than_lives_at_once(given_lives):
    """No layout needs less than the step with most bytes; that of largest first stays near it."""
    def rounded(n):
        return -(-max(n, 1) // ALIGN) * ALIGN
    most = max((sum(rounded(x.size) for x in given_lives if x.first <= t <= x.last) for t in range(30)), default=0)
    assert most <= place(given_lives).size <= 2 * most


def test_by_hand():
    assert place([]) == Layout((), 0)
    assert place([Life(0, 1, 100), Life(1, 2, 100), Life(2, 3, 100), Life(3, 4, 100)]) == Layout((0, 128, 0, 128), 256)      # a chain needs two
    assert place([Life(0, 3, 64), Life(1, 1, 10), Life(2, 2, 10)]).size == 128                                                 # two after each other share
    assert place([Life(0, 0, 64), Life(0, 0, 64), Life(1, 1, 128)]).size == 128                                                # one takes the place of two
