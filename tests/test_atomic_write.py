"""Files are replaced at once, and what is not a file is written to: links, modes, devices and pipes stay."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sparsefield.atomic_write import is_standard_output, write_atomically


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
def test_a_full_device_is_named() -> None:
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        write_atomically("/dev/full", b"content")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_standard_output_is_written_after_what_was_printed(tmp_path) -> None:
    code = (
        "from sparsefield.atomic_write import write_atomically\n"
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
