"""Run a broker until it is interrupted: `python -m stqsh.broker [PORT [HOST]]`; it prints its address."""

from __future__ import annotations

import signal
import sys

from stqsh.broker.kafka import LOOPBACK, running_broker
from stqsh.errors import StqshError


def main(port: str = "0", host: str = LOOPBACK) -> None:
    """Run a broker until it is interrupted."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(0))
    with running_broker(port=int(port), host=host) as broker:
        print(broker.address, flush=True)
        signal.pause()


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
    except StqshError as problem:
        sys.exit(str(problem))
