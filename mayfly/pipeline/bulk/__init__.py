"""The bulk plane: reads ledgers and queues, and writes to queues, as Arrow batches over Flight."""

import os

# gRPC, inside of pyarrow, logs errors to stderr that a call raises as well: a failed handshake, a
# taken port. It reads the variable when its first server or client is made. ERROR or INFO in the
# environment brings the lines back.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
