"""``python -m eigenformer.speed '{"model": "native"}'`` runs one measurement in this process."""

import dataclasses
import json
import sys

from eigenformer.speed import Setup, measure_here

print(json.dumps(dataclasses.asdict(measure_here(Setup(**json.loads(sys.argv[1]))))))
