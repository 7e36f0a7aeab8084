"""Speed and memory of a training step, side by side with other graph networks.

Every measurement runs in a process of its own, so that its peak of memory is its own. What is
compared are processor times: on a machine that others use too, wall clocks tell little.
"""

from eigenformer.speed.measuring import Measurement, measure, measure_here
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
    "Setup",
    "Workload",
    "growth",
    "literal_gigabytes",
    "measure",
    "measure_here",
    "steps",
]
