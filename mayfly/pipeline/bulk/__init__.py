"""The bulk plane: Arrow schemas of lives and messages, and the client that reads them by Flight."""

import os

# gRPC, inside of pyarrow, logs errors to stderr that a call raises as well: a failed handshake, a
# taken port. It reads the variable when its first server or client is made. ERROR or INFO in the
# environment brings the lines back.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
