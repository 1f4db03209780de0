"""Texts on which encoders are compared: real corpora, and strings made to break them."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

DOCUMENT = 3000

ADVERSARIAL = [
    "",
    " ",
    "   ",
    "a" * 1_000_000,
    "\x00",
    "a\x00b\x00\x00",
    "👩‍👩‍👧 🇳🇴 ok",
    "blåbær 안녕 नमस्ते 你好 สวัสดี שלום مرحبا γειά",
    "<|endoftext|><s></s><unk><pad><mask> <0x41> [PAD]",
    "x<n>y",
    "<n>",
    "word " * 40_000,
    "a\r\nb\r\n\r\n\rc",
    "\u2028x\u2029\x85",
    "\ue000\U000f0000\U0010ffff",
    "▁▁a▁",
    "e\u0301 ﬁ½①",
    "\t\tx\n\n\n   y  ",
    "\u3000全角　ＡＢＣ",
    "can't WE'LL I'Ve 1234567 3.14",
]


def corpora(shared_data: Path) -> list[str]:
    """Every text of the sample corpora, in pieces of 3,000 characters."""
    texts = [*_texts(shared_data / "corpora")]
    return [text[i : i + DOCUMENT] for text in texts for i in range(0, len(text), DOCUMENT)]


def _texts(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*.txt")):
        yield path.read_bytes().decode()
    for path in sorted(folder.rglob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            yield json.dumps(json.loads(line), ensure_ascii=False)
    with (folder / "korean_chatbot/ChatbotData.csv").open(encoding="utf-8", newline="") as rows:
        yield "\n".join("\t".join(row) for row in csv.reader(rows))
