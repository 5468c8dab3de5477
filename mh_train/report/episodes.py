"""Episodes for the report: one line of numbers for each, the whole story of as many as fit.

Why: filters must see every episode, but a run of thousands cannot be one small file with all its texts. Invariants: the
index holds every episode that is on disk; a page holds whole groups of one update, so that an episode is always there
with its group; texts that repeat are kept once a page.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from tokenizers import Tokenizer

from mh_train.report.html import pack
from mh_train.report.text import clip, number

log = logging.getLogger(__name__)
OUTCOMES = ("accepted", "rejected", "empty", "replayed")
COLUMNS = (
    *("id", "update", "group", "episode", "split", "task", "type", "won", "reward", "advantage", "steps", "turns"),
    *("malformed", "inadmissible", "truncated", "tokens", *OUTCOMES),
)
MOST_TOKENS = 2000
"""Tokens of one turn whose log-probs are shown."""
Row = dict[str, Any]
T = TypeVar("T")


def trajectory_files(run: Path) -> dict[int, Path]:
    """Update -> its file of trajectories, in order."""
    found = sorted((run / "trajectories").glob("update-*.jsonl"))
    return {int(number): path for path in found if (number := path.stem.removeprefix("update-")).isdigit()}


def index_rows(update: int, path: Path) -> tuple[Row, ...]:
    """The index rows of one update's episodes, with `asked`: [step, outcome, record ids] of each retrieval."""
    return _index_rows(update, path, path.stat().st_mtime_ns)


@lru_cache(maxsize=4096)
def _index_rows(update: int, path: Path, stamp: int) -> tuple[Row, ...]:
    """Cached by time of writing: a report that is made again and again reads only what is new."""
    return tuple(read_episodes(path, lambda episode: _row(update, episode)))


def read_episodes(path: Path, shown: Callable[[dict[str, Any]], T]) -> Iterator[T]:
    """What is shown of each episode of a file; lines that are no episode are logged and left out."""
    with open(path, encoding="utf-8", errors="replace") as file:
        for place, line in enumerate(file, 1):
            try:
                episode = json.loads(line)
                found = shown({**episode, "id": str(episode["id"])})
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                log.warning("%s line %d is not an episode (%s); it is left out.", path, place, error)
            else:
                yield found


def packed_page(path: Path, tokenizer: Path | None, share: float = 1.0) -> str:
    """`page` packed for the file, with token texts when there is a tokenizer."""
    return _packed_page(path, path.stat().st_mtime_ns, tokenizer, share)


@lru_cache(maxsize=1024)
def _packed_page(path: Path, stamp: int, tokenizer: Path | None, share: float) -> str:
    return pack(page(path, {} if tokenizer is None else token_texts(tokenizer), share))


@lru_cache(maxsize=8)
def token_texts(path: Path) -> dict[int, str]:
    """Token id -> its text, from a `tokenizer.json`; none from a damaged one."""
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # noqa: BLE001 - the library raises nothing narrower
        log.warning("%s cannot be read (%s); tokens are shown by their ids.", path, error)
        return {}
    return {i: tokenizer.decode([i], skip_special_tokens=False) for i in range(tokenizer.get_vocab_size())}


def page(path: Path, vocabulary: Mapping[int, str], share: float = 1.0) -> dict[str, Any]:
    """The whole story of one update's episodes; `strings` holds the long texts that the episodes name by number.

    `share` < 1 keeps only that share of the groups, the first ones."""
    strings: dict[str, int] = {}
    groups = list(dict.fromkeys(read_episodes(path, _group))) if share < 1 else []
    kept = set(groups[: max(1, round(len(groups) * share))])
    found = read_episodes(path, lambda e: (e["id"], story(e, strings)) if share >= 1 or _group(e) in kept else None)
    episodes = dict(pair for pair in found if pair is not None)
    return {"episodes": episodes, "strings": list(strings), "vocabulary": spoken(episodes.values(), vocabulary)}


def _group(episode: Mapping[str, Any]) -> str:
    return str(episode.get("group"))


def spoken(stories: Iterable[Mapping[str, Any]], vocabulary: Mapping[int, str]) -> dict[int, str]:
    """The part of the vocabulary that the stories' tokens need."""
    used = {i for told in stories for turn in told.get("turns", ()) for i in turn["tokens"]}
    return {i: vocabulary[i] for i in sorted(used) if i in vocabulary}


def _row(update: int, episode: Mapping[str, Any]) -> Row:
    asked = [
        [r.get("step", 0), r.get("outcome", ""), [h.get("record_id", "") for h in r.get("hits", ())]]
        for r in episode.get("retrievals", ())
    ]
    steps, turns = episode.get("steps", ()), episode.get("turns", ())
    return {
        **{name: sum(outcome == name for _, outcome, _ in asked) for name in OUTCOMES},
        "id": episode["id"],
        "update": update,
        "group": episode.get("group"),
        "episode": episode.get("episode"),
        "split": str(episode.get("split", "")),
        "task": clip(episode.get("task_id", ""), 300),
        "type": clip(episode.get("task_type", ""), 100),
        "won": int(bool(episode.get("won"))),
        "reward": number(episode.get("reward"), 4),
        "advantage": number(episode.get("advantage"), 4),
        "steps": len(steps),
        "turns": len(turns),
        "malformed": sum(bool(step.get("malformed")) for step in steps),
        "inadmissible": sum(bool(step.get("inadmissible")) for step in steps),
        "truncated": int(bool(episode.get("truncated"))),
        "tokens": sum(len(turn.get("completion_ids", ())) for turn in turns),
        "asked": asked,
    }


def story(episode: Mapping[str, Any], strings: dict[str, int]) -> dict[str, Any]:
    """Everything about one episode but prompts; long texts as numbers into `strings`."""

    def keep(text: Any) -> int:
        return strings.setdefault(clip(text), len(strings))

    return {
        "goal": clip(episode.get("goal", "")),
        "final": keep(episode.get("final_observation", "")),
        "parts": {str(k): number(v) for k, v in episode.get("reward_parts", {}).items()},
        "mode": str(episode.get("memory_mode", "")),
        "extra": clip(json.dumps(episode["extra"], ensure_ascii=False), 2000) if episode.get("extra") else "",
        "steps": [
            {
                "seen": keep(step.get("observation", "")),
                "may": keep("\n".join(map(str, step.get("admissible", ())))),
                "action": clip(step.get("action", "")),
                "malformed": bool(step.get("malformed")),
                "inadmissible": bool(step.get("inadmissible")),
            }
            for step in episode.get("steps", ())
        ],
        "asked": [
            {
                "step": asked.get("step", 0),
                "query": clip(asked.get("query", "")),
                "outcome": str(asked.get("outcome", "")),
                "guidance": clip(asked.get("guidance", "")),
                "hits": [_hit(hit, keep) for hit in asked.get("hits", ())],
            }
            for asked in episode.get("retrievals", ())
        ],
        "turns": [
            {
                "kind": str(turn.get("kind", "")),
                "step": turn.get("step", 0),
                "text": clip(turn.get("text", "")),
                "finish": str(turn.get("finish_reason", "")),
                "formed": bool(turn.get("well_formed", True)),
                "trained": bool(turn.get("trainable", True)),
                "prompt": len(turn.get("prompt_ids", ())),
                "tokens": list(turn.get("completion_ids", ()))[:MOST_TOKENS],
                "logprobs": [
                    round(value, 3) if value > -1e4 else None for value in turn.get("logprobs", ())[:MOST_TOKENS]
                ],
            }
            for turn in episode.get("turns", ())
        ],
    }


def _hit(hit: Mapping[str, Any], keep: Any) -> dict[str, Any]:
    return {
        "id": str(hit.get("record_id", "")),
        "memory": keep(hit.get("memory", "")),
        "source": keep(hit.get("source_state", "")),
        "role": str(hit.get("role", "")),
        "title": clip(hit.get("title", ""), 300),
        "score": number(hit.get("score"), 4),
        "terms": {str(name): number(value, 3) for name, value in hit.get("terms", {}).items()},
    }
