"""A process that puts each line of its input on Q1, and says it again when that is durable."""

import sys
from pathlib import Path

from mayfly import QueueManager

if __name__ == "__main__":
    with QueueManager("QM1", Path(sys.argv[1])) as qm, qm.session() as session:
        qm.define_queue("Q1", replace=True)
        print("ready", flush=True)
        for line in sys.stdin:
            session.put("Q1", line.strip().encode(), persistent=True)
            print(line.strip(), flush=True)
