"""Small real parts for these tests: a word codec, a speaker with a script, a kitchen, a shelf of memories."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from mh_train.agent.loop import EpisodeSpec
from mh_train.agent.prompts import Prompts
from mh_train.agent.speaker import TurnRequest
from mh_train.agent.types import MemoryHit, MemoryQuery
from mh_train.engine.base import Completion, Message

ROOM = "You are in a kitchen. You see a cabinet 1, a fridge 1, and a countertop 1."
ACTIONS = ("go to cabinet 1", "go to fridge 1", "look")


class WordCodec:
    """One id per white-space separated word; the vocabulary grows as it reads."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.ids: dict[str, int] = {}

    def encode(self, messages: Sequence[Message]) -> list[int]:
        return self.encode_text(" ".join(f"<{m['role']}> {m['content']}" for m in messages) + " <assistant>")

    def encode_text(self, text: str) -> list[int]:
        for word in text.split():
            if word not in self.ids:
                self.ids[word] = len(self.words)
                self.words.append(word)
        return [self.ids[word] for word in text.split()]

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(self.words[i] for i in ids)

    def end_ids(self) -> list[int]:
        return []


@dataclass(frozen=True)
class Observation:
    """The shape of `envs.base.Observation`, as far as the loop reads it."""

    text: str
    admissible: tuple[str, ...] = ACTIONS
    goal: str = "cool an apple."
    score: float = 0.0
    won: bool = False
    done: bool = False
    accepted: bool = True

    def for_prompt(self) -> str:
        return self.text


@dataclass
class Kitchen:
    """Won by going to the fridge; anything unknown is answered and not accepted."""

    heard: list[str] = field(default_factory=list)

    async def reset(self) -> Observation:
        return Observation(ROOM)

    async def step(self, action: str) -> Observation:
        self.heard.append(action)
        if action == "go to fridge 1":
            return Observation("You arrive at fridge 1.", score=1.0, won=True, done=True)
        return Observation("Nothing new." if action in ACTIONS else "Nothing happens.", accepted=action in ACTIONS)


@dataclass
class Script:
    """A speaker that says its lines in order (the last one for ever) and keeps what it was asked."""

    lines: Sequence[str]
    asked: list[TurnRequest] = field(default_factory=list)

    async def speak(self, turn: TurnRequest) -> Completion:
        text = self.lines[min(len(self.asked), len(self.lines) - 1)]
        self.asked.append(turn)
        ids = tuple(range(len(text.split())))
        return Completion(ids, tuple(-0.5 for _ in ids), text, "stop")


@dataclass
class Shelf:
    """A memory that always answers with the same hits and keeps the queries."""

    hits: Sequence[MemoryHit]
    queries: list[MemoryQuery] = field(default_factory=list)

    async def retrieve(self, query: MemoryQuery) -> Sequence[MemoryHit]:
        self.queries.append(query)
        return self.hits


HITS = (
    MemoryHit("m1", "The apple was in the fridge.", "You are in a kitchen. You see a fridge 2."),
    MemoryHit("m2", "Open the fridge before cooling.", "You are at fridge 1. The fridge 1 is closed."),
    MemoryHit("m3", "Apples lie on countertops.", "You are at countertop 2."),
)


@pytest.fixture
def hits():
    return HITS


@pytest.fixture
def kitchen():
    return Kitchen()


@pytest.fixture
def script():
    return Script


@pytest.fixture
def shelf():
    return Shelf


@pytest.fixture
def codec():
    return WordCodec()


@pytest.fixture
def make_prompts(codec):
    """Prompts of a preset with room for everything unless a test wants less."""

    def make(preset: str = "full", prompt_tokens: int = 4096, history: int = 3) -> Prompts:
        return Prompts(preset, codec, prompt_tokens, history, "No stored memory applies here.")

    return make


@pytest.fixture
def make_spec():
    def make(**changes) -> EpisodeSpec:
        base = {
            "id": "e",
            "env": "kitchen",
            "split": "train",
            "task_id": "t1",
            "task_type": "cool",
            "group": 0,
            "episode": 0,
        }
        return EpisodeSpec(**{**base, "noise_parts": (7, 0, "t1", 0), "horizon": 6, **changes})

    return make
