"""A server of one folder of bytes on this machine, which fails on demand."""

import contextlib
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Optional


class FileServer:
    """Serves `files`, a dict of path and content, and knows ranges.

    `script` says what happens to the requests to come, one after another: a dict with
    `status`, `headers` (None takes one away), `cut` (bytes until the connection
    closes), `stall` (bytes until the client reads the end of the stream, though the connection
    stays open), `pause` (seconds before each 1,000 bytes), `ignore_range`, `repeat` (how many
    times the content is sent, in chunks, without its length). Without a script, requests are
    served as usual.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.script: list[dict[str, Any]] = []
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.released = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server.requests.append((self.path, dict(self.headers)))
                server.reply(self, server.script.pop(0) if server.script else {})

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def ranges(self) -> list[Optional[str]]:
        return [headers.get("Range") for _, headers in self.requests]

    def reply(self, handler: BaseHTTPRequestHandler, act: dict[str, Any]) -> None:
        content = self.files.get(handler.path)
        etag = f'"{hash(content)}"'
        status, start = (200, 0) if content is not None else (404, 0)
        content = content or b""
        headers: dict[str, Optional[str]] = {"ETag": etag}
        wanted = handler.headers.get("Range")
        given = act.get("headers", {})
        may_range = handler.headers.get("If-Range", etag) == given.get("ETag", etag)
        if status == 200 and wanted and may_range and not act.get("ignore_range"):
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            status = 206 if start < len(content) else 416
            end = f"{start}-{len(content) - 1}" if status == 206 else "*"
            headers["Content-Range"] = f"bytes {end}/{len(content)}"
        status = act.get("status", status)
        body = content[start:] if status in (200, 206) else b""
        headers.update({"Content-Length": str(len(body)), **given})
        if "repeat" in act:
            headers.update({"Content-Length": None, "Transfer-Encoding": "chunked"})
        handler.send_response(status)
        for name, value in headers.items():
            if value is not None:
                handler.send_header(name, value)
        handler.end_headers()
        with contextlib.suppress(ConnectionError):  # who asked may have been killed
            self._send(handler, body, act)

    def _send(self, handler: BaseHTTPRequestHandler, body: bytes, act: dict[str, Any]) -> None:
        if "repeat" in act:
            chunk = f"{len(body):x}\r\n".encode() + body + b"\r\n"
            for _ in range(act["repeat"]):
                handler.wfile.write(chunk)
            handler.wfile.write(b"0\r\n\r\n")
            return
        some = body[: act.get("cut", act.get("stall", len(body)))]
        for start in range(0, len(some), 1000):
            time.sleep(act.get("pause", 0))
            handler.wfile.write(some[start : start + 1000])
            handler.wfile.flush()
        if "stall" in act:
            handler.connection.shutdown(socket.SHUT_WR)
            self.released.wait()
        handler.close_connection = len(some) < len(body) or "cut" in act

    def close(self) -> None:
        self.released.set()
        self.http.shutdown()
        self.http.server_close()
