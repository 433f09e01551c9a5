"""The service of docs/serving.md under load, for minutes: `make soak MINUTES=20`.

Several clients send texts at the same time: ordinary ones, new words, hostile texts and broken
requests. Meanwhile the pipeline is loaded again. After each round of requests, the vectors of 200
texts are those of the first round, bit by bit, and memory and open files have not grown. At the
end, the service gets SIGTERM while the clients send.
"""

import argparse
import gc
import hashlib
import http.client
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import spacy

import spacy_elmo

from helpers import forked
from helpers.components import listener, ner
from helpers.prepared import content
from helpers.trained import trained

PAGE = Path(__file__).parents[2] / "docs" / "serving.md"
FOREVER = 'ThreadingHTTPServer(("", 8000), Service).serve_forever()'
WORDS = [
    "Anna",
    "Rome",
    "bank",
    "money",
    "lends",
    "the",
    "of",
    "in",
    ".",
    "!",
    "naïve",
    "日本",
    "7",
]
HOSTILE = [
    *("", " ", "\n\n", "\0", "\x1b[31m", "\u202e\u2066abc", "\ufeff", "\ufffd", "\U0010ffff"),
    *("a" * 5000, "." * 300, "e" + "\u0301" * 500, "👩‍👩‍👧" * 50, "न्" * 100, "bank " * 1000),
    *("http://x.y/?" + "&a=b" * 200, "<script>" * 30, "'\"\\" * 50, "\r\n. " * 100, "1" * 400),
]
# Errors in the service: requests that are not UTF-8, or whose client does not wait for the answer.
EXPECTED_ERRORS = {"UnicodeDecodeError", "BrokenPipeError", "ConnectionResetError"}
# A client sees this when the service ends: no answer, or the first part of one.
LOST = (http.client.HTTPException, ConnectionError, json.JSONDecodeError)


def make_text(rng: Random) -> str:
    """Return a sentence of known words; one in three times with a new word."""
    words = [rng.choice(WORDS) for _ in range(rng.randrange(1, 15))]
    if rng.random() < 0.3:
        words.append("".join(chr(rng.randrange(97, 123)) for _ in range(12)))
    return " ".join(words)


FIXED = [make_text(Random(number)) for number in range(180)] + HOSTILE


def write_pipeline(nlp: spacy.Language, folder: Path, width: int) -> None:
    """Give a pipeline with ELMo named entities, and save it as the page says."""
    trained(nlp, 1, ner=ner(listener(width=width)))
    nlp.to_disk(folder / "my_pipeline")


# The process of the service


def serve(folder: Path) -> None:
    """Run the code of the page, with a free port, and two more addresses for the test."""
    # The test's process may handle SIGTERM: Ray does, in the whole process.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    [code] = re.findall(r"```python\n(import json\n.*?)```", PAGE.read_text("utf8"), re.DOTALL)
    assert code.count(FOREVER) == 1
    os.chdir(folder)
    space: dict[str, Any] = {"__name__": "service"}
    exec(code.replace(FOREVER, 'server = ThreadingHTTPServer(("127.0.0.1", 0), Service)'), space)
    errors: Counter[str] = Counter()

    class Watched(space["Service"]):  # type: ignore[misc]
        def do_GET(self) -> None:
            with space["lock"]:  # Only one thread may use a pipeline with memory zones.
                if self.path == "/reload":
                    space["nlp"] = spacy.load("my_pipeline")
                found = state(space["nlp"], errors)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def log_message(self, *arguments: object) -> None:
            """Requests are not printed."""

    def note_error(*address: object) -> None:
        errors[getattr(sys.exc_info()[0], "__name__", "")] += 1

    server = space["server"]
    server.RequestHandlerClass, server.handle_error = Watched, note_error
    print(server.server_port, flush=True)
    server.serve_forever()


def state(nlp: spacy.Language, errors: Counter[str]) -> dict[str, Any]:
    """State that must stay the same, but for the errors."""
    gc.collect()  # Frees the earlier pipelines.
    found = hashlib.sha256()
    for doc in nlp.pipe(FIXED):
        entities = [(ent.text, ent.label_) for ent in doc.ents]
        found.update(doc.tensor.tobytes() + repr(entities).encode("utf8", "surrogatepass"))
    status = Path("/proc/self/status").read_text()
    [memory] = re.findall(r"VmRSS:\s+(\d+) kB", status)
    handles = len(os.listdir("/proc/self/fd"))
    return {
        "checksum": found.hexdigest(),
        "errors": errors,
        "memory": int(memory),
        "handles": handles,
    }


# The clients


def request(port: int, method: str, path: str, body: bytes | None = None, **headers: str) -> Any:
    """Send a request. RETURNS (Any): The answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        assert answer.status == 200, (answer.status, body)
        return json.loads(answer.read())
    finally:
        connection.close()


def send_one(port: int, rng: Random) -> None:
    """Send a text, which is answered, or a broken request, which is not."""
    kind = rng.random()
    if kind < 0.05:
        broken = rng.choice([(b"\xff\xfe", {}), (b"abc", {"Content-Length": "9"})])
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request("POST", "/", *broken)
        connection.close()
        return
    text = rng.choice(HOSTILE) if kind < 0.2 else make_text(rng)
    entities = request(port, "POST", "/", text.encode())
    assert all(entity in text for entity, _ in entities)


def send(port: int, seed: int, n: int) -> None:
    """Send requests, one after another."""
    rng = Random(seed)
    for _ in range(n):
        send_one(port, rng)


def send_until_lost(port: int, seed: int, begun: Event) -> None:
    """Send requests until the service is gone."""
    rng = Random(seed)
    try:
        while True:
            send_one(port, rng)
            begun.set()
    except LOST:
        pass
    finally:
        begun.set()


def soak(
    folder: Path,
    rounds: Iterable[int],
    *,
    n_requests: int,
    n_clients: int = 4,
    report: Callable[[dict[str, Any]], None] = lambda found: None,
) -> list[dict[str, Any]]:
    """Run the service and its clients.

    folder (Path): The folder of `my_pipeline`.
    rounds (Iterable[int]): The numbers of the rounds.
    n_requests (int): Requests of each client in a round.
    n_clients (int): Number of clients.
    report (Callable[[dict], None]): Called with the state after each round.
    RETURNS (List[dict]): The state before the first round, and after each round.
    """
    before = content(folder)
    process, printed = forked.start(serve, folder)
    try:
        port = int(printed.readline())
        states = [request(port, "GET", "/state")]
        with ThreadPoolExecutor(n_clients + 1) as pool:
            for number in rounds:
                seeds = range(number * n_clients, (number + 1) * n_clients)
                sent = [pool.submit(send, port, seed, n_requests) for seed in seeds]
                request(port, "GET", "/reload")
                for each in sent:
                    each.result()
                states.append(settled(port, states[0]))
                report(states[-1])
            begun = [Event() for _ in range(n_clients)]
            lost = [pool.submit(send_until_lost, port, i, one) for i, one in enumerate(begun)]
            for one in begun:
                one.wait()
            assert process.pid is not None
            os.kill(process.pid, signal.SIGTERM)
            process.join()
            for each in lost:
                each.result()
        assert process.exitcode == -signal.SIGTERM, process.exitcode
        assert content(folder) == before, "the service has written to its pipeline"
        return states
    finally:
        process.kill()
        process.join()
        printed.close()


def settled(port: int, first: dict[str, Any], n_asked: int = 50) -> dict[str, Any]:
    """Ask for the state until the threads of the last requests have closed their connections."""
    for _ in range(n_asked):
        found = request(port, "GET", "/state")
        if found["handles"] <= first["handles"]:
            break
    return found


def faults(states: list[dict[str, Any]]) -> list[str]:
    """Return what is wrong, memory left aside."""
    first, *later = states
    found = []
    for number, one in enumerate(later):
        if one["checksum"] != first["checksum"]:
            found.append(f"round {number}: other vectors or entities")
        if one["handles"] > first["handles"]:
            found.append(f"round {number}: {one['handles']} open files, first {first['handles']}")
        if unexpected := one["errors"].keys() - EXPECTED_ERRORS:
            found.append(f"round {number}: {unexpected}")
    return found


def memory_growth(states: list[dict[str, Any]]) -> float:
    """Return the growth of the peak memory from the first half to the second, as a share.

    The first two rounds are left out: they fill the caches.
    """
    memory = [one["memory"] for one in states[2:]]
    half = len(memory) // 2
    return max(memory[half:]) / max(memory[:half]) - 1 if half else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    minutes = parser.parse_args().minutes
    end = time.monotonic() + 60 * minutes

    def rounds() -> Iterable[int]:
        number = 0
        while time.monotonic() < end:
            yield number
            number += 1

    with tempfile.TemporaryDirectory() as name:
        nlp = spacy.blank("en")
        nlp.add_pipe("elmo", config=spacy_elmo.pretrained("en_small"))
        write_pipeline(nlp, Path(name), width=256)
        states = soak(Path(name), rounds(), n_requests=100, report=print)
    wrong = faults(states)
    if (growth := memory_growth(states)) > 0.1:
        wrong.append(f"memory grew by {growth:.0%} between the two halves of the time")
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
