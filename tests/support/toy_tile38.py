"""A server that speaks as much of Tile38 as the benchmark's driver asks for, by brute force."""

from __future__ import annotations

import json
import socketserver
import threading
from typing import BinaryIO

Box = tuple[float, float, float, float]


class Toy:
    """Objects, fences and listeners; `forgets` is the number of a message that is never sent."""

    def __init__(self, forgets: int = -1) -> None:
        self.lock = threading.Lock()
        self.places: dict[str, tuple[float, float]] = {}
        self.fences: dict[str, Box] = {}
        self.listeners: list[BinaryIO] = []
        self.sent, self.forgets = 0, forgets

    def handler(self) -> type[socketserver.StreamRequestHandler]:
        toy = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                while line := self.rfile.readline():
                    words = [self._word() for _ in range(int(line[1:]))]
                    with toy.lock:
                        self.wfile.write(toy.answer(words, self.wfile))
                        self.wfile.flush()

            def _word(self) -> str:
                size = int(self.rfile.readline()[1:])
                return self.rfile.read(size + 2)[:-2].decode()

        return Handler

    def answer(self, words: list[str], wfile: BinaryIO) -> bytes:
        """Carry a command out."""
        match words:
            case ["SET", _, oid, "FIELD", "step", step, "POINT", y, x]:
                self.set(oid, int(step), (float(y), float(x)))
            case ["SETCHAN", name, "WITHIN", _, "FENCE", "DETECT", "enter,exit", "BOUNDS", *box]:
                self.fences[name] = read(box)
            case ["WITHIN", _, "LIMIT", _, "IDS", "BOUNDS", *box]:
                ids = [oid for oid, place in self.places.items() if holds(read(box), place)]
                return b"*2\r\n:0\r\n*%d\r\n" % len(ids) + b"".join(map(bulk, ids))
            case ["PSUBSCRIBE", pattern]:
                self.listeners.append(wfile)
                return b"*3\r\n" + bulk("psubscribe") + bulk(pattern) + b":1\r\n"
            case ["PUBLISH", channel, text]:
                self.publish(channel, text)
            case _:
                return b"-ERR unknown command\r\n"
        return b"+OK\r\n"

    def set(self, oid: str, step: int, place: tuple[float, float]) -> None:
        before, self.places[oid] = self.places.get(oid), place
        for name, box in self.fences.items():
            was, is_in = before is not None and holds(box, before), holds(box, place)
            if was != is_in:
                said = {
                    "detect": "enter" if is_in else "exit",
                    "hook": name,
                    "id": oid,
                    "fields": {"step": step},
                }
                self.publish(name, json.dumps(said))

    def publish(self, channel: str, text: str) -> None:
        self.sent += 1
        if self.sent == self.forgets:
            return
        for listener in self.listeners:
            listener.write(b"*4\r\n" + b"".join(map(bulk, ("pmessage", "*", channel, text))))
            listener.flush()


def read(box: list[str]) -> Box:
    """Read BOUNDS: the least and the greatest latitude and longitude."""
    y1, x1, y2, x2 = map(float, box)
    return y1, x1, y2, x2


def holds(box: Box, place: tuple[float, float]) -> bool:
    return box[0] <= place[0] <= box[2] and box[1] <= place[1] <= box[3]


def bulk(text: str) -> bytes:
    data = text.encode()
    return b"$%d\r\n%s\r\n" % (len(data), data)
