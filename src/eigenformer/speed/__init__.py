"""Time and memory of a training step, compared with other graph networks.

Every measurement runs in its own process, so that measurements do not share their peak memory.
Processor times are compared, because wall-clock times mean little on a shared machine.
"""

from eigenformer.speed.measuring import Measurement, MeasuringError, measure, measure_here
from eigenformer.speed.setups import (
    BACKENDS,
    PEERS,
    WORKLOADS,
    Setup,
    Workload,
    growth,
    literal_gigabytes,
    steps,
)

__all__ = [
    "BACKENDS",
    "PEERS",
    "WORKLOADS",
    "Measurement",
    "MeasuringError",
    "Setup",
    "Workload",
    "growth",
    "literal_gigabytes",
    "measure",
    "measure_here",
    "steps",
]
