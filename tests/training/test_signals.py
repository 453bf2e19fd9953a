"""A wish to stop is heard at once, granted at the end of the chunk; a second one is an order."""

import hashlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from maskless.training.signals import StopRequest

LOOP = """
    import hashlib, os, signal, threading, time
    from maskless.training.signals import StopRequest

    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup it would be ignored
    signal.signal(signal.SIGINT, signal.default_int_handler)  # likewise in a shell's background

    def send_two():
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.05)

    with StopRequest() as stop:
        print("ready", flush=True)
        for _ in range(500):
            CHUNK
            if stop.requested:
                break
    print("stopped by", stop.signal_name, flush=True)
"""
# C code that frees the interpreter but handles no signals, for a second, as a compiled chunk.
COMPILED = "hashlib.pbkdf2_hmac('sha256', b'', b'', 4_000_000)"
SIGNALLED = f"threading.Timer(0.05, send_two).start(); {COMPILED}"


@pytest.fixture
def start():
    processes = []

    def run(chunk):
        process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(LOOP.replace("CHUNK", chunk))],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        processes.append(process)
        assert process.stdout.readline() == "ready\n", process.stderr.read()
        return process

    yield run
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_signal_finishes_the_chunk(start, number):
    process = start("time.sleep(0.02)")
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert out == f"stopped by {number.name}\n"
    assert err.count("\n") == 1
    assert f"maskless: {number.name}: finishing the current chunk and saving" in err


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_one_stops_at_once(start, second):
    process = start("time.sleep(30)")
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert "finishing" in process.stderr.readline()
    process.send_signal(second)
    out, err = process.communicate(timeout=20)
    assert time.monotonic() - began < 10
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert "stopped" not in out


def test_a_closed_terminal_sends_two_and_is_still_a_wish():
    with StopRequest(lambda line: None) as stop:
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGTERM)
        assert stop.signal_name == "SIGHUP"


def test_what_nohup_has_silenced_stays_so():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert not stop.requested
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_line_comes_while_compiled_code_runs():
    """Sent by a timer early in the chunk, heard before half of the rest has passed."""
    times = {}

    def send():
        times["sent"] = time.monotonic()
        os.kill(os.getpid(), signal.SIGTERM)

    with StopRequest(lambda line: times.update(heard=time.monotonic())) as stop:
        timer = threading.Timer(0.05, send)
        timer.start()
        hashlib.pbkdf2_hmac("sha256", b"", b"", 4_000_000)
        times["returned"] = time.monotonic()
    timer.join()
    assert stop.requested
    assert times["heard"] - times["sent"] < (times["returned"] - times["sent"]) / 2


def test_two_signals_during_compiled_code_are_an_order_when_it_returns(start):
    out, err = start(SIGNALLED).communicate(timeout=30)
    assert "finishing" in err
    assert err.rstrip().endswith("KeyboardInterrupt")
    assert "stopped" not in out


def test_old_handlers_come_back():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    threads = threading.active_count()
    told = []
    with StopRequest(told.append) as stop:
        assert not stop.requested
        assert signal.getsignal(signal.SIGINT) not in before
        signal.raise_signal(signal.SIGTERM)
        assert stop.requested
    assert stop.signal_name == "SIGTERM"
    assert len(told) == 1
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert signal.set_wakeup_fd(-1) == -1
    assert threading.active_count() == threads
    with StopRequest() as again:
        assert not again.requested


def test_handlers_come_back_after_an_error():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError), StopRequest():
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGINT) is before


def test_inert_in_other_threads():
    before, found = signal.getsignal(signal.SIGINT), []

    def work():
        with StopRequest() as stop:
            found.append((stop.requested, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(False, before)]


def test_while_compiling_one_signal_ends_the_process(start):
    long = COMPILED.replace("4_", "20_")
    process = start(f"stop.exits_at_once = True; print('compiling', flush=True); {long}")
    assert process.stdout.readline() == "compiling\n"
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGINT
    assert time.monotonic() - began < 1
    assert err == "maskless: SIGINT: stopped while compiling.\n"
    assert "stopped by" not in out
