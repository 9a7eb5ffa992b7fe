"""Servers of benchmarks and of tests on loopback ports: each is an object with a method ``respond``."""

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class DropError(Exception):
    """Close the connection in the middle of an answer."""


@contextmanager
def serving(server, *, tls=None):
    """Yield the address at which ``server.respond(path, body, request's name)`` answers: (status, data).

    Data are sent as they are if they are bytes, and as JSON else; `DropError` cuts the answer short.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self):
            self.reply(None)

        def do_POST(self):
            self.reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def reply(self, body):
            try:
                status, data = server.respond(self.path, body, self.headers.get("X-Request-Id", ""))
            except DropError:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{")
                self.wfile.flush()
                self.close_connection = True
                return
            content = data if isinstance(data, bytes) else json.dumps(data).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        http.socket = tls.wrap_socket(http.socket, server_side=True)
    http.handle_error = lambda *_: None  # clients that go away are part of the tests
    http.daemon_threads = True
    thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_port}"
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
