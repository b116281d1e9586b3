"""The public names are exactly those that are meant to be public."""
import morok


def test_all_is_sorted_and_exact():
    assert morok.__all__ == sorted(morok.__all__)
    public = {n for n in vars(morok) if not n.startswith("_")}
    modules = {n for n in public if type(vars(morok)[n]).__name__ == "module"}
    assert public - modules == set(morok.__all__)
