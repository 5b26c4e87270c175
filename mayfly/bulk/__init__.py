"""The bulk plane: Arrow schemas of lives and messages, and the client that reads them by Flight."""

import os

# gRPC, inside of pyarrow, writes to stderr itself what a call then raises as an error: a handshake
# that failed, a port that is taken. It looks at the variable when its first server or client is
# made; whoever wants to see the lines sets it to ERROR or INFO.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
