"""The folder of a probe: answers as received, one per line, and the files made from them at the end.

    answers.jsonl          requests and responses, in the order of completion
    start.json             the planned requests, and the server
    metrics-*.txt          the server's counters before and after
    groups/NAME.SIDE.ids   token ids of the answers that should be equal, one per line
    groups/NAME.SIDE.jsonl only the responses
    manifest.json          all files with their sha256; written last
"""

import hashlib
import json
import os
import threading
from pathlib import Path
from typing import Any

import probe_answers as answers
import probe_judge as judge
from probe_server import Refused, Reply, Server


def write(path: Path, text: str) -> None:
    """Writes under another name until the file is complete."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, path)


class Store:
    def __init__(self, folder: Path, start: dict[str, Any], sides: list[tuple[str, Server]], prompts: list[list[int]]):
        self.folder, self.sides = folder, sides
        self.servers = list({id(s): s for _, s in sides}.values())
        self.count, self.lock, self.said = 0, threading.Lock(), []  # type: ignore[var-annotated]
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            raise Refused(f"{folder}: exists; expected a new folder") from None
        identity = [{p: r.text if r.status == 200 else None for p, r in s.identity.items()} for s in self.servers]
        start = {"format": "samebit-probe", "version": 1, **start, "servers": identity, "ids": prompts}
        write(folder / "start.json", json.dumps(start) + "\n")
        self.metrics("before")
        self.file = open(folder / "answers.jsonl.live", "w", encoding="utf-8")

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: Any) -> None:
        self.file.close()

    def metrics(self, when: str) -> None:
        for i, server in enumerate(self.servers):
            reply = server.get("/metrics")
            if reply.status == 200:
                write(self.folder / f"metrics-{i}-{when}.txt", reply.text)

    def keep(self, entry: dict[str, Any], reply: Reply, server: Server) -> answers.Answer | None:
        """Stores one line; returns the answer if it is valid."""
        found, wrong = None, None
        if reply.status == 200:
            try:
                found = answers.read(server.kind, answers.strict(reply.text))
            except answers.BadAnswer as error:
                wrong = str(error)
        else:
            wrong = reply.text[:200] if reply.status is None else f"HTTP {reply.status}"
        with self.lock:
            names = ("order", "phase", "mode", "prompt", "n")
            head = {"done": self.count, **{k: entry[k] for k in names}, "server": self.servers.index(server)}
            head |= {"path": reply.path, "status": reply.status, "error": wrong, "request": reply.body}
            line = json.dumps(head)[:-1]
            if found:  # as received: between JSON values a newline counts as a space
                line += f', "response": {reply.text.replace(chr(13), " ").replace(chr(10), " ").strip()}}}\n'
            else:
                line += f', "text": {json.dumps(reply.text)}}}\n'
            if not self.file.closed:
                self.file.write(line)
                self.file.flush()
                self.count += 1
            self.said.append(reply.status is not None)
        return found

    def end(self, why: str | None) -> None:
        with self.lock:
            self.file.close()
        if why != "the server no longer answers":
            self.metrics("after")
        finish(self.folder, why)


def finish(folder: Path, why: str | None) -> None:
    """Writes the complete answers, the files made from them, and the manifest."""
    part = folder / "answers.jsonl.live"
    if part.exists():
        lines = part.read_text(encoding="utf-8").split("\n")
        write(folder / "answers.jsonl", "".join(line + "\n" for line in lines[:-1]))
        part.unlink()
    taken = judge.load(folder, whole=False)
    groups = folder / "groups"
    groups.mkdir(exist_ok=True)
    listed = []
    for group in judge.groups(taken):
        for side in (0, 1):
            rows = [pair[side] for pair in group.pairs if pair[0].answer and pair[1].answer]
            if rows and all(r.answer.are_ids for r in rows):
                name = f"{group.name}.{group.sides[side]}"
                write(groups / f"{name}.ids", "".join(",".join(map(str, r.sequence)) + "\n" for r in rows))
                write(groups / f"{name}.jsonl", "".join(json.dumps(r.response) + "\n" for r in rows))
                listed.append(name)
    found = (p for p in folder.rglob("*") if p.is_file() and p.name != "manifest.json")
    files = sorted(p for p in found if p.suffix not in (".part", ".live"))
    digests = {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}
    manifest = {"format": "samebit-probe", "version": 1, "complete": why is None, "why": why}
    manifest |= {"answers": len(taken.rows), "groups": listed, "files": digests}
    write(folder / "manifest.json", json.dumps(manifest, indent=1) + "\n")
