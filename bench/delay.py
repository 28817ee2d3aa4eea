"""`python -m bench.delay`: a proxy that holds every request back for some milliseconds, like a distant API server.

It moves bytes and parses nothing: whatever a client sends is passed on after the delay, whatever the server
answers at once. Requests on different connections do not wait for each other.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from devcluster.kubeconfig import write_kubeconfig

_CHUNK = 1 << 20


async def _hold_back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    """Pass each piece on `seconds` after it came. Within a request the pieces follow each other at once."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def pass_on() -> None:
        while True:
            due, data = await queue.get()
            await asyncio.sleep(due - loop.time())
            if not data:
                writer.close()
                return
            writer.write(data)
            await writer.drain()

    passing = asyncio.create_task(pass_on())
    try:
        while data := await reader.read(_CHUNK):
            queue.put_nowait((loop.time() + seconds, data))
    finally:
        queue.put_nowait((loop.time(), b""))
        await passing


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK):
        writer.write(data)
        await writer.drain()
    writer.close()


async def serve(host: str, port: int, seconds: float, kubeconfig: Path) -> None:
    """Until SIGTERM. The kubeconfig appears when connections are accepted."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(host, port)
        await asyncio.gather(
            _hold_back(reader, server_writer, seconds), _pass_on(server_reader, writer), return_exceptions=True
        )

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    write_kubeconfig(kubeconfig, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    await stop.wait()
    server.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.delay", description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="of the server on 127.0.0.1")
    parser.add_argument("--milliseconds", type=float, required=True, help="before a request is passed on")
    parser.add_argument("--kubeconfig", type=Path, required=True, help="written once connections are accepted")
    options = parser.parse_args(arguments)
    asyncio.run(serve("127.0.0.1", options.port, options.milliseconds / 1000, options.kubeconfig))
    return 0


if __name__ == "__main__":
    sys.exit(main())
