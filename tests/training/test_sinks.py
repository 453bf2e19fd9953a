"""TensorBoard and W&B get the same numbers as metrics.jsonl, under readable names."""

import contextlib
import json
import os
import subprocess
import sys
import time

import pytest

from maskless import MasklessError
from maskless.training.log import RunLog
from maskless.training.sinks import TensorBoard, WandB, curves

ACTIONS = ("wait", "climb")


def row(update, value):
    per_action = [0.25, float("nan")]
    return {"update": update, "frames": 100 * update, "return": value, "valid": per_action}


def test_names_of_curves():
    row = {"update": 1, "valid": [0.5, None], "layers": [1, 2, 3], "note": "text", "gone": None}
    assert dict(curves(row, ACTIONS)) == {
        **{"update": 1, "valid/wait": 0.5},
        **{"layers/0": 1, "layers/1": 2, "layers/2": 3},
    }


def read_events(folder):
    """name -> [(step, value)], of all event files in the order of their making, and the steps from
    which on the sessions replace earlier ones."""
    tensorboardx = pytest.importorskip("tensorboardX")
    values, starts = {}, []
    for path in sorted(folder.iterdir()):
        content = path.read_bytes()
        while content:  # TFRecord: length (8), its checksum (4), the event, its checksum (4)
            length = int.from_bytes(content[:8], "little")
            event = tensorboardx.proto.event_pb2.Event.FromString(content[12 : 12 + length])
            content = content[16 + length :]
            if event.session_log.status:
                starts.append(event.step)
            for value in event.summary.value:
                values.setdefault(value.tag, []).append((event.step, value.simple_value))
    return values, starts


def test_tensorboard_can_be_read_back(tmp_path, monkeypatch):
    pytest.importorskip("tensorboardX")
    monkeypatch.setattr(TensorBoard, "FLUSH_SECONDS", 0.05)
    with RunLog(tmp_path, [TensorBoard(tmp_path, ACTIONS)]) as log:
        log.write([row(1, 0.5), row(2, 0.75)])
        for _ in range(100):  # shown while the run goes on
            values, _ = read_events(tmp_path / "tensorboard")
            if len(values.get("return", ())) == 2:
                break
            time.sleep(0.05)
        log.write([row(3, float("nan"))])
    assert values["return"] == [(100, 0.5), (200, 0.75)]
    assert values["valid/wait"] == [(100, 0.25), (200, 0.25)]
    assert "valid/climb" not in values
    values_after_close, _ = read_events(tmp_path / "tensorboard")
    assert values_after_close["return"] == values["return"]
    assert values_after_close["update"] == [(100, 1), (200, 2), (300, 3)]


def test_tensorboard_forgets_what_a_resumed_run_does_again(tmp_path):
    pytest.importorskip("tensorboardX")
    for first in (1, 3):
        with RunLog(tmp_path, [TensorBoard(tmp_path)]) as log:
            log.write([row(update, first) for update in range(first, 5)])
    _, starts = read_events(tmp_path / "tensorboard")
    assert starts == [100, 300]


@pytest.mark.parametrize("sink", [TensorBoard, lambda run: WandB(run, program="x", name="y")])
def test_nothing_is_written_through_a_link(tmp_path, sink):
    """In the folder of a stranger, whose training is resumed."""
    pytest.importorskip("tensorboardX")
    pytest.importorskip("wandb")
    run = tmp_path / "run"
    run.mkdir()
    for name in ("tensorboard", "wandb"):
        (run / name).symlink_to(tmp_path)
    with pytest.raises(MasklessError, match="a link that leads out"):
        sink(run)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux only")
def test_a_full_disk_is_a_sentence_and_nothing_waits(tmp_path, monkeypatch):
    pytest.importorskip("tensorboardX")
    monkeypatch.setattr(TensorBoard, "FLUSH_SECONDS", 0.0)
    sink = TensorBoard(tmp_path, ACTIONS)
    sink.write([row(1, 0.5)])
    events = sink._writer._py_recordio_writer._writer
    with open("/dev/full", "wb") as full:
        os.dup2(full.fileno(), events.fileno())
    with pytest.raises(MasklessError, match=r"Cannot write .*tensorboard \(No space left"):
        sink.write([row(update, 0.5) for update in range(1000)])
    sink.close()
    with contextlib.suppress(OSError):
        events.close()


OFFLINE = """
import sys
from pathlib import Path
from maskless.training.log import RunLog
from maskless.training.sinks import WandB

logs = []
for name in ("seed-0", "seed-1"):
    folder = Path(sys.argv[1]) / "masked" / name
    sink = WandB(folder, program="try", name=f"masked/{name}", config={"lr": 1e-3},
                 action_names=("wait", "climb"))
    logs.append(RunLog(folder, [sink]))
for log in logs:  # two runs at the same time in one process
    log.write([{"update": 1, "frames": 100, "return": 0.5, "valid": [0.25, float("nan")]}])
for log in logs:
    log.close()
"""


def read_wandb(folder):
    """(run record, history rows) of the one offline run in a run folder.

    The file: 7 bytes, then blocks of 32 KiB with records of checksum (4), length (2), kind (1:
    whole, 2 to 4: the first, middle and last part) and content.
    """
    from wandb.proto import wandb_internal_pb2

    (path,) = folder.glob("wandb/offline-run-*/*.wandb")
    content = path.read_bytes()
    position, data, run, history = 7, b"", None, []
    while position + 7 <= len(content):
        if 32768 - position % 32768 < 7:
            position += 32768 - position % 32768
        length, kind = (
            int.from_bytes(content[position + 4 : position + 6], "little"),
            content[position + 6],
        )
        data += content[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):
            record, data = wandb_internal_pb2.Record.FromString(data), b""
            run = record.run if record.HasField("run") else run
            if record.HasField("history"):
                history.append(
                    {x.key or x.nested_key[0]: x.value_json for x in record.history.item}
                )
    return run, history


def test_wandb_offline_one_run_per_folder(tmp_path):
    pytest.importorskip("wandb")
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE, str(tmp_path)],
        capture_output=True,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "WANDB_MODE": "offline",
        },
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    ids = set()
    for name in ("seed-0", "seed-1"):
        run, history = read_wandb(tmp_path / "masked" / name)
        assert (run.run_group, run.display_name) == ("try", f"try/masked/{name}")
        ids.add(run.run_id)
        (logged,) = [{k: json.loads(v) for k, v in row.items() if k[0] != "_"} for row in history]
        assert logged == {"update": 1, "frames": 100, "return": 0.5, "valid/wait": 0.25}
    assert len(ids) == 2


def test_a_missing_package_is_one_sentence(tmp_path, monkeypatch):
    for module in ("tensorboardX", "wandb"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MasklessError, match="pip install tensorboardX"):
        TensorBoard(tmp_path)
    with pytest.raises(MasklessError, match="pip install wandb"):
        WandB(tmp_path, program="p", name="n")
