"""Something small that stands where a node would: it echoes what comes to its port, and asks others on demand.

Commands on stdin: `ask HOST PORT BYTES PATIENCE` sends so many bytes over one connection that is kept, and says
`answered SECONDS` when they have come back or `silent` when its patience, in seconds, is at an end (they may come
later); `seen` says how many bytes came to its port so far.
"""

import contextlib
import socket
import sys
import threading
import time


class Station:
    """Listens at `host:port`."""

    def __init__(self, host: str, port: int) -> None:
        self.seen = 0
        self.connections: dict[tuple[str, int], socket.socket] = {}
        self.server = socket.create_server((host, port))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        """Every connection has a thread of its own."""
        while True:
            accepted, _ = self.server.accept()
            threading.Thread(target=self.echo, args=(accepted,), daemon=True).start()

    def echo(self, accepted: socket.socket) -> None:
        """Until the other end closes."""
        with contextlib.suppress(OSError):
            while data := accepted.recv(65_536):
                self.seen += len(data)
                accepted.sendall(data)

    def ask(self, host: str, port: int, size: int, patience_s: float) -> str:
        """The answer to `ask`; a connection that was silent is not used again."""
        begin_s = time.monotonic()
        try:
            if (host, port) not in self.connections:
                self.connections[host, port] = socket.create_connection((host, port), patience_s)
                self.connections[host, port].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = self.connections[host, port]
            connection.settimeout(patience_s)
            threading.Thread(target=connection.sendall, args=(b"?" * size,), daemon=True).start()
            left = size
            while left:
                got = len(connection.recv(65_536))
                if not got:
                    return "closed"
                left -= got
        except OSError:
            self.connections.pop((host, port), None)
            return "silent"
        return f"answered {time.monotonic() - begin_s}"


def main() -> None:
    """Runs until stdin ends."""
    station = Station(sys.argv[1], int(sys.argv[2]))
    print("ready", flush=True)
    for line in sys.stdin:
        match line.split():
            case ["ask", host, port, size, patience]:
                print(station.ask(host, int(port), int(size), float(patience)), flush=True)
            case ["seen"]:
                print(station.seen, flush=True)


if __name__ == "__main__":
    main()
