"""Processor time, wall-clock time and peak memory of a training step."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch_geometric.data import Batch, Data

from eigenformer.devices import resolve_device
from eigenformer.speed.batches import make_batch
from eigenformer.speed.measured_models import make_model
from eigenformer.speed.setups import Setup


@dataclass(frozen=True)
class Measurement:
    """Processor seconds, wall-clock seconds, and megabytes in addition to those before the step.

    With several threads, processor time includes that of threads waiting for others. On a GPU, the
    memory is that of the GPU, and only the wall-clock seconds measure its work.
    """

    cpu: float
    wall: float
    memory: float
    parameters: int

    def best(self, other: Measurement) -> Measurement:
        """Returns the smaller times and memory of two measurements of the same setup."""
        return Measurement(
            min(self.cpu, other.cpu),
            min(self.wall, other.wall),
            min(self.memory, other.memory),
            self.parameters,
        )


def measure(setup: Setup) -> Measurement | None:
    """Measures in a new process; returns None if it fails, for example for lack of memory."""
    source = str(Path(__file__).parents[2])
    path = os.pathsep.join([source, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, "-m", __package__, json.dumps(dataclasses.asdict(setup))]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return None if result.returncode else Measurement(**json.loads(result.stdout))


def measure_here(setup: Setup) -> Measurement:
    """Measures in this process."""
    torch.manual_seed(0)
    torch.set_num_threads(setup.threads)
    device = resolve_device(setup.device)
    batch, model = make_batch(setup).to(device), make_model(setup).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)

    def step(data: Data) -> None:
        optimizer.zero_grad()
        model(data).sum().backward()
        if setup.part == "step":
            optimizer.step()

    # Loading libraries and growing buffers happen once, on two graphs, and are not measured.
    if setup.nodes is None:
        step(Batch.from_data_list(batch.to_data_list()[:2]))
    before = _start_memory(device)
    cpu, wall = [], []
    for _ in range(setup.repeats):
        begin = time.process_time(), time.perf_counter()
        step(batch)
        _wait(device)
        cpu.append(time.process_time() - begin[0])
        wall.append(time.perf_counter() - begin[1])
        if len(cpu) == 1:
            memory = _peak_memory(device) - before
    parameters = sum(p.numel() for p in model.parameters())
    return Measurement(min(cpu), min(wall), memory, parameters)


def _wait(device: torch.device) -> None:
    """Waits for a GPU, which computes while the program goes on."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _start_memory(device: torch.device) -> float:
    """Returns the memory in use, in megabytes, and starts to measure the peak from there."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        return torch.cuda.memory_allocated(device) / 2**20
    before = _memory("VmRSS")
    _forget_peak()
    return before


def _peak_memory(device: torch.device) -> float:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return _memory("VmHWM")


def _memory(field: str) -> float:
    """Returns VmRSS or VmHWM of this process in megabytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return math.nan


def _forget_peak() -> None:
    """Resets VmHWM to the memory currently in use."""
    Path("/proc/self/clear_refs").write_text("5")
