#!/usr/bin/env python3
"""Writes tests/golden/tensorboard.json: an event file as TensorBoard's own Python package writes it.

    pip install tensorboard
    scripts/make_tensorboard_golden.py            writes the file
    scripts/make_tensorboard_golden.py --check    compares only; exits 1 on a difference
    scripts/make_tensorboard_golden.py --read EVENT_FILE
                                                  prints its scalars, read by that package, as JSON
"""

import io
import json
import sys
from pathlib import Path

GOLDEN = Path(__file__).parent.parent / "tests/golden/tensorboard.json"

EVENTS = [  # wall time, step, scalars
    (1700000000.25, 1, {"train/loss": 4.125, "train/learning_rate": 0.0003}),
    (1700000001.5, 300, {"validation/loss": 1.0172}),
    (1700000002.75, 1 << 40, {"train/loss": -0.0, "train/grad_norm": 1e30}),
]


def written_by_tensorboard():
    from tensorboard.compat.proto import event_pb2, summary_pb2
    from tensorboard.summary.writer.record_writer import RecordWriter

    buffer = io.BytesIO()
    writer = RecordWriter(buffer)
    writer.write(event_pb2.Event(wall_time=1700000000.0, file_version="brain.Event:2").SerializeToString())
    for wall_time, step, scalars in EVENTS:
        values = [summary_pb2.Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        event = event_pb2.Event(wall_time=wall_time, step=step, summary=summary_pb2.Summary(value=values))
        writer.write(event.SerializeToString())
    return {
        "header_wall_time": 1700000000.0,
        "events": [
            {"wall_time": wall, "step": step, "scalars": [[tag, value] for tag, value in scalars.items()]}
            for wall, step, scalars in EVENTS
        ],
        "file": buffer.getvalue().hex(),
    }


def read(path):
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    for event in LegacyEventFileLoader(path).Load():
        for value in event.summary.value:
            print(json.dumps({"step": event.step, "tag": value.tag, "value": value.simple_value}))


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--read":
        read(sys.argv[2])
        return 0
    text = json.dumps(written_by_tensorboard(), indent=1) + "\n"
    if sys.argv[1:] == ["--check"]:
        same = GOLDEN.read_text(encoding="utf-8") == text
        print("tensorboard.json is as it should be" if same else "tensorboard.json differs")
        return 0 if same else 1
    GOLDEN.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
