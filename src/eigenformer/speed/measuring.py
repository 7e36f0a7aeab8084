"""Processor time, wall-clock time and peak memory of a training step."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Batch, Data

from eigenformer.devices import resolve_device
from eigenformer.models import Model
from eigenformer.speed.batches import make_batch
from eigenformer.speed.measured_models import make_model
from eigenformer.speed.setups import Setup


@dataclass(frozen=True)
class Measurement:
    """Processor seconds, wall-clock seconds, and megabytes in addition to those before the step.

    With several threads, processor time includes that of threads waiting for others. On a GPU,
    ``gpu`` are seconds between two of its events, and the megabytes are the allocator's; ``peak``
    are all its megabytes, with weights and batch. What a machine does not tell is None.
    """

    cpu: float
    wall: float
    memory: float | None
    parameters: int
    gpu: float | None = None
    peak: float | None = None

    def best(self, other: Measurement) -> Measurement:
        """Returns the smaller times and memory of two measurements of the same setup."""
        return Measurement(
            min(self.cpu, other.cpu),
            min(self.wall, other.wall),
            _smaller(self.memory, other.memory),
            self.parameters,
            _smaller(self.gpu, other.gpu),
            _smaller(self.peak, other.peak),
        )


def _smaller(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else min(a, b)


class MeasuringError(RuntimeError):
    """A measurement failed, for example for lack of memory."""


def measure(setup: Setup) -> Measurement:
    """Measures in a new process. If that fails, the error has the last line that it wrote."""
    source = str(Path(__file__).parents[2])
    path = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-m", __package__, json.dumps(dataclasses.asdict(setup))]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        lines = result.stderr.strip().splitlines() or [f"exit code {result.returncode}"]
        raise MeasuringError(lines[-1])
    return Measurement(**json.loads(result.stdout))


def measure_here(setup: Setup) -> Measurement:
    """Measures in this process."""
    torch.manual_seed(0)
    torch.set_num_threads(setup.threads)
    device = resolve_device(setup.device)
    graphs, model = make_batch(setup), make_model(setup).to(device)
    batch = (model.check(graphs) if isinstance(model, Model) else graphs).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step(data: Data) -> None:
        optimizer.zero_grad()
        model(data).sum().backward()
        if setup.part == "step":
            optimizer.step()

    # Loading libraries and growing buffers happen once, on two graphs, and are not measured.
    if setup.nodes is None:
        step(Batch.from_data_list(graphs.to_data_list()[:2]).to(device))
    parameters = sum(p.numel() for p in model.parameters())
    if device.type != "cpu":
        step(batch)  # compiles the kernels for these sizes
        return _on_gpu(lambda: step(batch), setup.repeats, parameters, device)
    before = _memory("VmRSS")
    _forget_peak()
    cpu, wall = [], []
    for _ in range(setup.repeats):
        begin = time.process_time(), time.perf_counter()
        step(batch)
        cpu.append(time.process_time() - begin[0])
        wall.append(time.perf_counter() - begin[1])
        if len(cpu) == 1:
            after = _memory("VmHWM")
            memory = None if before is None or after is None else after - before
    return Measurement(min(cpu), min(wall), memory, parameters)


def _on_gpu(
    step: Callable[[], None], repeats: int, parameters: int, device: torch.device
) -> Measurement:
    """Measures with the GPU's own events and the counters of PyTorch's allocator.

    Apple's have no counter of the peak: there, the memory is not known.
    """
    found = []
    memory = peak = None
    cuda = device.type == "cuda"
    gpu: Any = torch.cuda if cuda else torch.mps
    new_event: Any = torch.cuda.Event if cuda else torch.mps.event.Event
    if device.index is not None:
        torch.cuda.set_device(device)  # events belong to the current one
    for _ in range(repeats):
        gpu.synchronize()
        if cuda:
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
        begin, end = (new_event(enable_timing=True) for _ in range(2))
        cpu, wall = time.process_time(), time.perf_counter()
        begin.record()
        step()
        end.record()
        gpu.synchronize()
        times = time.process_time() - cpu, time.perf_counter() - wall
        if cuda:
            peak = torch.cuda.max_memory_allocated() / 2**20
            memory = peak - before / 2**20
        found.append(Measurement(*times, memory, parameters, begin.elapsed_time(end) / 1e3, peak))
    return reduce(Measurement.best, found)


def _memory(field: str) -> float | None:
    """Returns VmRSS or VmHWM of this process in megabytes, if the system tells them."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return None


def _forget_peak() -> None:
    """Resets VmHWM to the memory currently in use."""
    Path("/proc/self/clear_refs").write_text("5")
