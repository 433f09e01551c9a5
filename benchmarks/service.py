"""Errors and memory of a web service with one pipeline and many clients.

    pip install fastapi uvicorn httpx gunicorn
    python benchmarks/service.py --minutes 30 --clients 8
    python benchmarks/service.py --minutes 1 --clients 2 --server gunicorn

The clients send texts of one to sixty sentences, and compare the norms of the vectors with the
first answer to the same text. The script prints five lines: number of answers, number of wrong
answers, and memory of the server's processes. gunicorn loads and runs the pipeline before it forks
its two workers (`--preload`).
"""

import argparse
import os
import random
import socket
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

WORDS = ["the", "river", "bank", "was", "steep", ",", "money", "河", "😀", "naïve", "."]
TOLERANCE = 1e-3  # Maximum difference of two norms. Norms are some tens.

if os.environ.get("SPACY_ELMO_SERVICE"):
    import spacy
    from fastapi import FastAPI

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.add_pipe("elmo")
    nlp.initialize()
    nlp("Run once before the fork .")
    app = FastAPI()

    @app.get("/norms")
    def norms(text: str) -> list[float]:
        return [float(token.vector_norm) for token in nlp(text)]


def make_text(rng: random.Random) -> str:
    sentences = [" ".join(rng.choices(WORDS, k=12)) + " ." for _ in range(rng.randint(1, 60))]
    return " ".join(sentences)


def ask(url: str, number: int, end: float, found: list[tuple[float, str]]) -> None:
    """Send texts as one client until the time `end`.

    url (str): Address of the server.
    number (int): Number of the client; its random seed.
    end (float): End of the time, by `time.monotonic`.
    found (List[Tuple[float, str]]): List to which each answer is appended: its seconds, and its
        error or "".
    """
    import httpx

    rng = random.Random(number)
    texts = [make_text(rng) for _ in range(5)]
    first: dict[str, list[float]] = {}
    with httpx.Client(timeout=120) as client:
        while time.monotonic() < end:
            text = rng.choice(texts)
            started = time.monotonic()
            try:
                answer = client.get(f"{url}/norms", params={"text": text})
                norms = answer.raise_for_status().json()
                expected = first.setdefault(text, norms)
                same = len(norms) == len(expected) and all(
                    abs(one - other) < TOLERANCE for one, other in zip(norms, expected)
                )
                wrong = "" if same else "other vectors for the same text"
            except Exception as error:
                wrong = repr(error)
            found.append((time.monotonic() - started, wrong))


def memory(pid: int) -> int:
    """Return the memory of a process and its children in MB."""
    found = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except OSError:  # The process has ended.
            continue
        if pid in (int(lines["Pid"]), int(lines["PPid"])):
            found += int(lines.get("VmRSS", "0 kB").split()[0]) // 1024
    return found


def start(server: str, port: int) -> subprocess.Popen:
    where = f"127.0.0.1:{port}"
    module, environment = "service:app", {**os.environ, "SPACY_ELMO_SERVICE": "1"}
    command = ["uvicorn", module, "--port", str(port), "--log-level", "warning"]
    if server == "gunicorn":
        command = ["gunicorn", module, "--bind", where, "--preload", "--workers", "2"]
        command += ["--worker-class", "uvicorn.workers.UvicornWorker", "--log-level", "warning"]
    process = subprocess.Popen(
        [sys.executable, "-m", *command], cwd=Path(__file__).parent, env=environment
    )
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return process
        except OSError:
            assert process.poll() is None, "the server did not start"
            time.sleep(0.5)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--server", choices=["uvicorn", "gunicorn"], default="uvicorn")
    parser.add_argument("--port", type=int, default=8765)
    args = parser.parse_args()
    server = start(args.server, args.port)
    seconds, found = 60 * args.minutes, list[tuple[float, str]]()
    try:
        settings = (f"http://127.0.0.1:{args.port}", time.monotonic() + seconds, found)
        url, end, _ = settings
        clients = [
            threading.Thread(target=ask, args=(url, number, end, found))
            for number in range(args.clients)
        ]
        for client in clients:
            client.start()
        for i in range(5):
            time.sleep(max(0.0, end - time.monotonic() - (4 - i) * seconds / 5))
            wrong = [reason for _, reason in found if reason]
            middle = statistics.median([took for took, _ in found] or [0.0])
            print(
                f"{(i + 1) * args.minutes / 5:5.1f} min: {len(found):6,} answers, {len(wrong)} "
                f"wrong, median {middle:.2f} s, {memory(server.pid):,} MB",
                flush=True,
            )
        for client in clients:
            client.join()
        wrong = [reason for _, reason in found if reason]
        print("\n".join(sorted(set(wrong))[:5]))
    finally:
        server.terminate()
        server.wait()
    return int(bool(wrong) or not found)


if __name__ == "__main__":
    sys.exit(main())
