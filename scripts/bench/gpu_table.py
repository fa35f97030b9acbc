"""The table of gpu.sh: reads the results in a folder. Usage: gpu_table.py FOLDER BATCH CONTEXT"""

import json
import sys
from pathlib import Path

# Calls in which the CPU waits for the GPU; copies that return at once are not among them.
WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")
TRACED_STEPS = 3


def load(file):
    """The last line of a file, or all of it, as JSON; None when it is not there or is something else."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    for part in (text, text.strip().splitlines()[-1] if text.strip() else ""):
        try:
            return json.loads(part)
        except json.JSONDecodeError:
            pass
    return None


def rows(folder):
    for precision in ("bf16", "fp16", "fp32"):
        for name in ("tril", "tril_graph"):
            found = load(folder / f"{name}_{precision}.txt")
            if not found:
                continue
            share = f"{100 * found['share_of_gemm']['median']:.0f} %"
            yield precision, name, found["tokens_per_second"]["median"], found["peak_memory_bytes"], share
        for name in ("pytorch", "pytorch_compile"):
            found = load(folder / f"{name}_{precision}.txt")
            if found:
                yield precision, name, found["tokens_per_second"], found["peak_device_bytes"], ""


def main():
    folder, batch, context = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    print(f"GPT-2 124M, T {context}, B {batch}, one step = {batch * context} tokens (fp32: TF32 products)\n")
    print("| precision | program | tokens/s | tril / it | peak device memory | share of GEMM |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    ours = {}
    for precision, name, speed, memory, share in rows(folder):
        if name == "tril":
            ours[precision] = speed
        ratio = f"{ours[precision] / speed:.2f}" if precision in ours else ""
        print(f"| {precision} | {name} | {speed:,.0f} | {ratio} | {memory / 1e6:,.0f} MB | {share} |")
    trace = load(folder / "trace.json")
    if trace:
        waits = [event["name"] for event in trace["traceEvents"] if event.get("name") in WAITS]
        # One wait ends the traced steps and belongs to the measurement.
        print(f"\nwaits for the GPU in {TRACED_STEPS} traced steps, the last one ours: {len(waits)}")


if __name__ == "__main__":
    main()
