"""Records on disk: damage is a miss, the folder stays under its limit, and neither killed writers nor other processes harm them."""
import gzip
import io
import multiprocessing
import os
import pathlib
import random
import signal
import tarfile
import time
import warnings

import pytest

from morok import database as module, knobs
from morok.database import MAGIC, NAME, Database, key_of, pack, unpack

A, B = key_of("a"), key_of("b")
DATA = b"some \x00 data\n" * 4


@pytest.fixture
def db(tmp_path):
    return Database(tmp_path / "records", 1 << 30)


def content(key):
    """What the tests about several processes write: up to 200 KB that only this key has."""
    return (key.encode() * 3200)[:int(key[:4], 16) * 3]


def files(folder):
    return sorted(p for p in folder.rglob("*") if not p.is_dir())


def sound(d):
    """The keys of all records, each of which has to be what was written."""
    found = {path: path.name.split(".")[0] for path, _, _ in d.records()}
    for path, key in found.items():
        assert unpack(path.read_bytes(), key) == content(key), path
    return sorted(found.values())


def test_round_trip(db):
    records = {(kind, key): kind.encode() + key.encode() for kind in ("kernel", "object", "beam") for key in (A, B)} | {("kernel", key_of("empty")): b""}
    for (kind, key), data in records.items():
        assert db.get(kind, key) is None
        assert db.put(kind, key, data)
    assert {(kind, key): db.get(kind, key) for kind, key in records} == records
    assert {kind: n for kind, (n, _) in db.info().items()} == {"kernel": 3, "object": 2, "beam": 2}
    assert sum(size for _, size in db.info().values()) == sum(p.stat().st_size for p in files(db.folder))
    db.put("kernel", A, b"new")
    assert db.get("kernel", A) == b"new" and db.get("object", A) != b"new"


def test_another_key_or_kind_is_a_miss(db):
    db.put("kernel", A, DATA)
    before = dict(module.counters)
    assert db.get("kernel", B) is None and db.get("object", A) is None and db.get("kernel", A) == DATA
    assert {k: n - before[k] for k, n in module.counters.items()} == {"hits": 1, "misses": 2, "written": 0}


def test_keys_tell_their_parts_apart():
    assert len({key_of("ab", "c"), key_of("a", "bc"), key_of("abc"), key_of("a", "b", "c"), key_of(1, True), key_of(1, 1)}) == 6
    assert key_of("a", 1) == key_of("a", "1") and NAME.fullmatch(A + ".kernel")


def test_get_or_makes_a_record_once(db):
    made = []
    assert [db.get_or("object", A, lambda: made.append(1) or DATA) for _ in range(3)] == [DATA] * 3 and made == [1]


def damages(raw):
    yield from (raw[:i] + bytes([raw[i] ^ x]) + raw[i + 1:] for i in range(len(raw)) for x in (1, 0xff))
    yield from (raw[:n] for n in range(len(raw)))                # 0 bytes too
    yield from (raw + b"\0", raw + raw, b"\0" * len(raw), b"hello", MAGIC, DATA, pack(DATA, B), pack(DATA, ""))


def test_every_damage_is_a_miss_and_deleted(db):
    db.put("kernel", A, DATA)
    path = db.path("kernel", A)
    raw = path.read_bytes()
    for bad in damages(raw):
        path.write_bytes(bad)
        assert db.get("kernel", A) is None and not path.exists(), bad
    path.write_bytes(raw)
    assert db.get("kernel", A) == DATA


def test_what_is_no_file_is_a_miss(db):
    db.path("kernel", A).mkdir(parents=True)
    os.symlink(db.path("kernel", B), db.path("object", A))       # to nothing
    os.symlink("loop", db.folder / "loop")
    assert db.get("kernel", A) is None and db.get("object", A) is None and Database(db.folder / "loop", 1).get("kernel", A) is None


def test_limit_0_reads_and_writes_nothing(db, tmp_path):
    db.put("kernel", A, DATA)
    db.export(tmp_path / "e")
    off, before = Database(db.folder, 0), dict(module.counters)
    assert off.get("kernel", A) is None and not off.put("kernel", B, DATA) and off.get_or("kernel", A, lambda: b"made") == b"made"
    assert (off.export(tmp_path / "off"), off.import_from(tmp_path / "e")) == (0, (0, 1))
    assert files(db.folder) == [db.path("kernel", A)] and db.get("kernel", A) == DATA
    assert module.counters == before | {"hits": before["hits"] + 1}     # that of db


def test_the_least_recently_used_go_first(db):
    keys, now = [key_of(i) for i in range(20)], time.time()
    random.Random(1).shuffle(keys)
    for age, key in enumerate(keys):                             # keys[0] was used last
        db.put("kernel", key, b"x" * 953)                        # 1000 bytes as a file
        os.utime(db.path("kernel", key), (now - 7200 - age,) * 2)
    assert db.get("kernel", keys[19]) is not None                # a use counts
    Database(db.folder, 20_000).evict()
    assert len(files(db.folder)) == 20
    Database(db.folder, 10_000).evict()
    assert set(files(db.folder)) == {db.path("kernel", k) for k in [keys[19], *keys[:8]]}     # nine tenths of the limit


def test_puts_keep_the_folder_under_its_limit(db, monkeypatch):
    for i in range(20):
        db.put("kernel", key_of(i), b"x" * 953)
        os.utime(db.path("kernel", key_of(i)), (1000 + i,) * 2)
    small = Database(db.folder, 10_000)
    small._puts = 0                                              # its next one looks; where a process begins follows from its number
    small.put("kernel", A, b"x" * 953)
    assert sum(size for _, size in small.info().values()) <= 10_000 and small.get("kernel", A) is not None
    monkeypatch.setattr(module, "SPACING", 5)
    most = 0
    for i in range(30):
        small.put("kernel", key_of("more", i), b"x" * 953)
        most = max(most, len(files(db.folder)))
    assert most <= 10 + 5


def test_records_that_are_used_are_renewed_once_an_hour(db):
    db.put("kernel", A, DATA)
    path = db.path("kernel", A)
    for age, renewed in ((60, False), (7200, True)):
        os.utime(path, (then := time.time() - age,) * 2)
        db.get("kernel", A)
        assert (path.stat().st_mtime > then + 30) == renewed


@pytest.mark.parametrize("inside", [False, True], ids=["folder", "subfolders"])
def test_a_folder_that_cannot_be_written_to_is_told_once(tmp_path, inside):
    d, keys = Database(tmp_path / "x", 1 << 20), [key_of(i) for i in range(30)]
    if inside:
        d.folder.mkdir()
    for path in {d.folder / k[:2] for k in keys} if inside else [d.folder]:
        path.write_text("a file")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for k in keys:
            assert not d.put("kernel", k, DATA) and d.get("kernel", k) is None
    assert [w.category for w in seen] == [RuntimeWarning] and str(d.folder) in str(seen[0].message) and "MOROK_CACHE_DIR" in str(seen[0].message)
    assert d.info() == {} and d.clear() == 0


def test_a_full_disk_leaves_nothing_half_written(db, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(os, "replace", full)
    with pytest.warns(RuntimeWarning, match="No space left"):
        db.put("kernel", A, DATA)
    assert files(db.folder) == []


def test_a_folder_that_vanishes_during_a_look_at_its_size(db, monkeypatch):
    def gone(_):
        raise FileNotFoundError
    monkeypatch.setattr(Database, "records", gone)
    assert db.put("kernel", A, DATA) and db.get("kernel", A) == DATA


def test_the_folder_that_the_environment_names(monkeypatch, tmp_path):
    for k in ("MOROK_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(k, raising=False)
    for name, value, folder in (("HOME", "/h", "/h/.cache/morok"), ("XDG_CACHE_HOME", "/x", "/x/morok"), ("MOROK_CACHE_DIR", "/y", "/y")):     # each goes first
        monkeypatch.setenv(name, value)
        assert module.database().folder == pathlib.Path(folder)
    with knobs.scope(MOROK_CACHE_DIR=str(tmp_path), MOROK_DISK_LIMIT=5):
        assert (module.database().folder, module.database().limit) == (tmp_path, 5) and module.database() is module.database()


def test_a_user_without_a_home_has_no_records(monkeypatch):
    def none():
        raise RuntimeError("Could not determine home directory.")
    monkeypatch.setattr(pathlib.Path, "home", none)
    with knobs.scope(MOROK_CACHE_DIR="", XDG_CACHE_HOME=""):
        d = module.database()
    assert not d.put("kernel", A, DATA) and d.get("kernel", A) is None and d.info() == {}


def test_what_killed_writers_left_goes_after_an_hour(db):
    db.put("kernel", A, DATA)
    old, fresh, other = (db.path("kernel", A).parent / name for name in (".new-old", ".new-fresh", "notes.txt"))
    for p in (old, fresh, other):
        p.write_bytes(b"x")
    for p in (old, other):
        os.utime(p, (time.time() - 3700,) * 2)
    assert [p for p, _, _ in db.records()] == [db.path("kernel", A)]
    assert not old.exists() and fresh.exists() and other.exists()      # somebody else's file is not ours to delete
    assert db.clear() == 1 and files(db.folder) == sorted([fresh, other])


# ---- export and import ---------------------------------------------------------------------------------------

def test_export_and_import(db, tmp_path):
    for i in range(10):
        db.put("object" if i % 3 else "kernel", key_of(i), os.urandom(i * 50))
    db.path("kernel", key_of(0)).write_bytes(b"damaged")
    assert db.export(tmp_path / "e") == 9
    other = Database(tmp_path / "other", 1 << 30)
    assert other.import_from(tmp_path / "e") == (9, 0) == other.import_from(tmp_path / "e")
    assert {p.name: p.read_bytes() for p in files(other.folder)} == {p.name: p.read_bytes() for p in files(db.folder)} and len(files(db.folder)) == 9
    assert Database(tmp_path / "none", 1).export(tmp_path / "e") == 0 and other.import_from(tmp_path / "e") == (0, 0)


def test_export_is_of_what_was_checked(db, tmp_path, monkeypatch):
    for key in (A, B):
        db.put("kernel", key, DATA)
    get = db.get

    def last(kind, key):                                         # another process deletes each record right after it was read
        data = get(kind, key)
        db.path(kind, key).unlink()
        return data
    monkeypatch.setattr(db, "get", last)
    other = Database(tmp_path / "other", 1 << 30)
    assert db.export(tmp_path / "e") == 2 and other.import_from(tmp_path / "e") == (2, 0) and other.get("kernel", B) == DATA


def test_a_damaged_export_is_a_value_error(db, tmp_path):
    for key in (A, B, key_of("c")):
        db.put("kernel", key, random.Random(key).randbytes(20_000))      # not compressible, so that most bytes lie inside of members
    target = tmp_path / "e"
    db.export(target)
    raw, other = target.read_bytes(), Database(tmp_path / "other", 1 << 30)
    start = 10 + len("e\0")                                      # the header of gzip: name and time have no checksum
    flips = [raw[:i] + bytes([raw[i] ^ 0x55]) + raw[i + 1:] for i in [*range(start, 100), *range(100, len(raw), len(raw) // 100)]]
    cuts = [raw[:n] for n in range(0, len(raw), len(raw) // 60)]
    for bad in [*flips, *cuts, raw[:-1], raw + b"more", b"text", gzip.compress(b"text"), gzip.compress(b"x" * 10_000)]:
        target.write_bytes(bad)
        with pytest.raises(ValueError, match="cannot be read as an exported cache"):
            other.import_from(target)
    assert {p.name: p.read_bytes() for p in files(other.folder)} == {p.name: p.read_bytes() for p in files(db.folder)}     # those before the damage
    for nothing in (tmp_path / "nothing", tmp_path):
        with pytest.raises(ValueError, match="cannot be read"):
            other.import_from(nothing)


def test_damage_inside_an_intact_archive(db, tmp_path):
    """Headers that are nonsense behind a right checksum of gzip: no error but ValueError, and nothing but sound records is taken."""
    for key in (A, B):
        db.put("kernel", key, DATA)
    db.export(tmp_path / "e")
    raw, other, rng, refused = gzip.decompress((tmp_path / "e").read_bytes()), Database(tmp_path / "other", 1 << 30), random.Random(3), 0
    for i in [*range(600), *rng.sample(range(len(raw)), 50)]:
        with gzip.open(tmp_path / "e", "wb", compresslevel=1) as f:
            f.write(raw[:i] + bytes([raw[i] ^ rng.randrange(1, 256)]) + raw[i + 1:])
        try:
            other.import_from(tmp_path / "e")
        except ValueError:
            refused += 1
    assert refused and {p.name: p.read_bytes() for p in files(other.folder)} == {p.name: p.read_bytes() for p in files(db.folder)}


def test_foreign_members_are_skipped(tmp_path):
    home = tmp_path / "deep" / "home"
    d, raw, name = Database(home / "records", 100_000), pack(DATA, A), f"{A}.kernel"
    with tarfile.open(tmp_path / "e", "w:gz") as tar:
        def add(member, data=b"", **facts):
            info = tarfile.TarInfo(member)
            info.size = len(data)
            for k, v in facts.items():
                setattr(info, k, v)
            tar.addfile(info, io.BytesIO(data))
        for member in ("notes.txt", "../x", f"../{name}", f"../../{name}", str(tmp_path / name), f"x/{name}",
                       f"{A}.KERNEL", f"{name}.x", f"{A}x.kernel", A, f"{A[:-1]}.kernel"):
            add(member, raw)
        for bad in (raw[:-1], raw + b"x", b"", DATA, pack(DATA, B)):
            add(name, bad)
        add(f"{B}.kernel", pack(b"x" * 100_000, B))              # larger than the whole folder may be
        kinds = [(tarfile.DIRTYPE, ""), (tarfile.FIFOTYPE, ""), (tarfile.CHRTYPE, ""),
                 *((t, to) for t in (tarfile.SYMTYPE, tarfile.LNKTYPE) for to in ("notes.txt", "missing", name, "/etc/passwd"))]
        for kind, to in kinds:
            add(name, type=kind, linkname=to)
        skipped = len(tar.getmembers())
        add(f"{A}.object", raw)
        add(f"{B}.kernel", pack(b"", B))
    before = set(files(tmp_path))
    assert d.import_from(tmp_path / "e") == (2, skipped) and skipped == 28
    assert set(files(tmp_path)) - before == {d.path("object", A), d.path("kernel", B)} and d.get("object", A) == DATA and d.get("kernel", B) == b""


def test_records_that_cannot_be_written_do_not_count_as_imported(db, tmp_path):
    db.put("kernel", A, DATA)
    db.export(tmp_path / "e")
    (tmp_path / "file").write_text("")
    with pytest.warns(RuntimeWarning):
        assert Database(tmp_path / "file", 1 << 20).import_from(tmp_path / "e") == (0, 1)


# ---- several processes ---------------------------------------------------------------------------------------

fork = multiprocessing.get_context("fork")                       # a fresh interpreter would take longer than the test
KEYS = [key_of("shared", i) for i in range(50)]


def write_forever(d, seed):
    rng = random.Random(seed)
    while True:
        key = rng.choice(KEYS)
        d.put("kernel", key, content(key))


def test_killed_writers_leave_sound_records(db):
    for seed in range(10):
        p = fork.Process(target=write_forever, args=(db, seed))
        p.start()
        time.sleep(0.02 + random.Random(seed).random() * 0.06)
        p.kill()
        p.join()
        assert p.exitcode == -signal.SIGKILL                     # not an error before it
        sound(db)
    assert sound(db)


def write_and_read(d, seed):
    rng = random.Random(seed)
    for key in rng.sample(KEYS * 4, 4 * len(KEYS)):
        got = d.get("kernel", key)
        assert got is None or got == content(key)
        if rng.random() < 0.5:
            assert d.put("kernel", key, content(key))
        if rng.random() < 0.02:
            d.evict()


@pytest.mark.parametrize("limit", [1 << 30, 1 << 20], ids=["roomy", "tight"])
def test_many_processes_share_the_same_records(tmp_path, limit):
    d = Database(tmp_path / "records", limit)                    # not made yet: all want to make it
    processes = [fork.Process(target=write_and_read, args=(d, seed)) for seed in range(8)]
    for p in processes:
        p.start()
    for p in processes:
        p.join()
    assert [p.exitcode for p in processes] == [0] * 8
    if limit == 1 << 30:
        assert sound(d) == sorted(KEYS)
    assert sound(d) and all(NAME.fullmatch(p.name) for p in files(d.folder))     # no leftovers
