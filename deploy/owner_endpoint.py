"""Keeps the Service of a queue manager at the pod whose server owns it (kubernetes-replica.yaml).

Beside each server runs one of these. While its server is the owner, it writes the address of its
pod into the EndpointSlice of the Service each second: what changes nothing there costs nothing. So
the Service has one address, that of the latest owner, also when the node of the one before is lost
and can remove nothing.
"""

import json
import os
import signal
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

#: Says 200 at the owner alone.
READY = os.environ["READY_URL"]
API = f"https://{os.environ['KUBERNETES_SERVICE_HOST']}:{os.environ['KUBERNETES_SERVICE_PORT']}"
#: token, ca.crt and namespace, as Kubernetes projects them.
ACCOUNT = Path(os.environ["SERVICE_ACCOUNT"])
SLICE = os.environ["ENDPOINT_SLICE"]
POD_IP = os.environ["POD_IP"]
PERIOD_SECONDS = 1.0
PATIENCE_SECONDS = 5.0


def owns() -> bool:
    """Return True while the server of this pod is the owner, and ready; raises OSError."""
    # It is asked on the loopback interface, where its certificate has no name.
    unnamed = ssl.create_default_context()
    unnamed.check_hostname, unnamed.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(READY, timeout=PATIENCE_SECONDS, context=unnamed):
            return True
    except urllib.error.HTTPError as answer:
        answer.close()
        return False


def point_here() -> None:
    """Make this pod the only endpoint of the slice; raises OSError."""
    namespace = (ACCOUNT / "namespace").read_text("utf-8")
    endpoint = {"addresses": [POD_IP], "conditions": {"ready": True}}
    asked = urllib.request.Request(
        f"{API}/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices/{SLICE}",
        json.dumps({"endpoints": [endpoint]}).encode(),
        # The token is a new one now and then.
        {
            "Authorization": f"Bearer {(ACCOUNT / 'token').read_text('utf-8')}",
            "Content-Type": "application/merge-patch+json",
        },
        method="PATCH",
    )
    trusted = ssl.create_default_context(cafile=ACCOUNT / "ca.crt")
    urllib.request.urlopen(asked, timeout=PATIENCE_SECONDS, context=trusted).close()


def main() -> None:
    """Look each second, and say what has changed; end at SIGTERM."""
    # The first process of a container would ignore it, and the pod end a minute later.
    signal.signal(signal.SIGTERM, lambda _signal, _frame: sys.exit())
    said = ""
    while True:
        try:
            now = "owner" if owns() else "standby"
            if now == "owner":
                point_here()
        except OSError as error:
            now = str(error)
        if now != said:
            print(now, flush=True)
        said = now
        time.sleep(PERIOD_SECONDS)


if __name__ == "__main__":
    main()
