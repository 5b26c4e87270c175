"""A replay: would a second consumer, or a longer life, have saved the orders that expired?

Ten orders come in a burst, a second apart; each lives for ten seconds and takes three to work on.
"""

import pyarrow as pa

from mayfly.pipeline.replay.compare import compare, turned
from mayfly.pipeline.replay.run import replay_in_process
from mayfly.pipeline.replay.settings import WhatIf
from mayfly.pipeline.replay.trace import TRACE_SCHEMA

START_MS = 1_700_000_000_000
ONE = WhatIf(consumers=1, service_ms=3_000)
orders = pa.Table.from_pylist(
    [
        {"queue": "ORDERS", "seq": n, "put_ms": START_MS + n * 1_000, "life_ms": 10_000}
        | {"correl_id": b""}
        for n in range(10)
    ],
    schema=TRACE_SCHEMA,
)

outcomes = replay_in_process(orders, ONE)["outcome"].to_pylist()
print("one consumer:", " ".join(outcomes))

for what, what_if in {
    "two consumers": ONE._replace(consumers=2),
    "20 s to live": ONE._replace(life_ms=20_000),
    "capped at 5 s": ONE._replace(cap_ms=5_000),
}.items():
    answer = compare(orders, what_if, before=ONE)
    [before], [after] = answer.before.to_pylist(), answer.after.to_pylist()
    print(f"{what}: got {before['got']} -> {after['got']}, deepest {after['depth_max']}")
    for (was, now), count in turned(answer.changed).items():
        print(f"  {was} -> {now}: {count}")
