"""Files are replaced at once, and what is not a file is written to: links, modes, devices and pipes stay."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sparsefield.model import atomic_write
from sparsefield.model.atomic_write import is_standard_output, remove_leftovers, write_atomically

OLD = 10.0**9
"""A time long ago."""


def partial_name(host: str | None = None, pid: int | None = None) -> str:
    host = atomic_write._host() if host is None else host
    return f".sparsefield-{host}-{ended_pid() if pid is None else pid}-{'0' * 16}.partial"


def ended_pid() -> int:
    child = subprocess.Popen(["true"])
    child.wait()
    return child.pid


def test_a_new_file_has_the_mode_of_any_new_file(tmp_path) -> None:
    (tmp_path / "other").write_bytes(b"")
    write_atomically(tmp_path / "file", b"content")
    assert (tmp_path / "file").read_bytes() == b"content"
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "other").stat().st_mode


@pytest.mark.parametrize("mode", [0o640])
def test_the_mode_of_an_existing_file_is_kept(tmp_path, mode) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(mode)
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only the superuser gives files away")
def test_the_owner_of_an_existing_file_is_kept(tmp_path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    os.chown(path, 1234, 4321)
    write_atomically(path, b"new")
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 4321)


def test_a_write_protected_file_is_left_alone(tmp_path, monkeypatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda *_: False)  # as for a user who is not the superuser
    with pytest.raises(PermissionError, match="write-protected"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"


def test_a_link_stays_and_its_target_is_replaced(tmp_path) -> None:
    (tmp_path / "folder").mkdir()
    target = tmp_path / "folder" / "target"
    target.write_bytes(b"old")
    (tmp_path / "second").symlink_to("folder/target")
    (tmp_path / "first").symlink_to("second")
    write_atomically(tmp_path / "first", b"new")
    assert (tmp_path / "first").is_symlink()
    assert (tmp_path / "second").is_symlink()
    assert target.read_bytes() == b"new"
    assert [path.name for path in target.parent.iterdir()] == ["target"]


def test_a_pipe_gets_the_content_and_stays(tmp_path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_bytes)
        write_atomically(pipe, b"x" * 100_000)
        assert read.result() == b"x" * 100_000
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
def test_a_full_device_raises() -> None:
    with pytest.raises(OSError, match="No space"):
        write_atomically("/dev/full", b"content")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_standard_output_is_written_after_what_was_printed(tmp_path) -> None:
    code = (
        "from sparsefield.model.atomic_write import write_atomically\n"
        "print('before')\nwrite_atomically('/dev/stdout', b'content\\n')\nprint('after', flush=True)"
    )
    with (tmp_path / "out").open("wb") as out:
        out.write(b"first\n")
        out.flush()
        subprocess.run([sys.executable, "-c", code], check=True, stdout=out)
    assert (tmp_path / "out").read_text().split() == ["first", "before", "content", "after"]
    assert is_standard_output("/dev/fd/1")
    assert not is_standard_output("/dev/stderr")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def test_threads_that_write_one_path_fail_nowhere_and_tear_nothing(tmp_path) -> None:
    path, contents = tmp_path / "file", [bytes([k]) * 100_000 for k in range(4)]
    write_atomically(path, contents[0])
    done, read = threading.Event(), set()

    def keep_reading() -> None:
        while not done.is_set():
            read.add(path.read_bytes())

    with ThreadPoolExecutor(5) as pool:
        reader = pool.submit(keep_reading)
        writers = [pool.submit(write_atomically, path, contents[k % 4]) for k in range(60)]
        for writer in writers:
            writer.result()
        done.set()
        reader.result()
    assert read
    assert read <= set(contents)
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


WRITE = """
import os, sys
from sparsefield.model.atomic_write import write_atomically
os.replace = lambda *_: (print("written", flush=True), sys.stdin.read())
write_atomically(sys.argv[1], b"new")
"""


def test_what_a_killed_process_left_is_removed_later_and_what_a_living_one_writes_is_not(tmp_path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    child = subprocess.Popen(
        [sys.executable, "-c", WRITE, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "written\n"
    (left,) = set(tmp_path.iterdir()) - {path}
    os.utime(left, (OLD, OLD))
    remove_leftovers(tmp_path, min_age=0.0)
    assert left.exists()  # its process lives
    os.kill(child.pid, signal.SIGKILL)
    child.communicate()
    assert path.read_bytes() == b"old"
    assert left.exists()
    write_atomically(path, b"next")
    assert [found.name for found in tmp_path.iterdir()] == ["file"]


def test_only_old_files_of_our_own_names_are_removed(tmp_path) -> None:
    other = "0" * 12
    names = {
        "removed": (partial_name(), OLD),
        "young": (partial_name(), None),
        "of this process": (partial_name(pid=os.getpid()), OLD),
        "of another machine": (partial_name(other, os.getpid()), OLD),
        "of another machine, young": (partial_name(other), None),
        "not ours": (".data.csv.123.partial", OLD),
        "nearly ours": (partial_name() + ".csv", OLD),
    }
    for name, changed in names.values():
        (tmp_path / name).write_bytes(b"")
        if changed is not None:
            os.utime(tmp_path / name, (changed, changed))
    remove_leftovers(tmp_path)
    kept = {what for what, (name, _) in names.items() if (tmp_path / name).exists()}
    assert set(names) - kept == {"removed", "of another machine"}
