"""One episode, from reset to its end: retrieve, reconstruct, act (SPEC 1).

Why: rollouts, evaluation, cold start and an external reconstructor differ in their speaker, never in this loop.
Invariants: every completion becomes a turn with the speaker's own token ids; every pass of the loop costs one unit of
the horizon, so an episode always ends; turn n draws its noise from (`noise_parts`, n) and from nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from mh_train.agent.parse import ActReply, collapse, normalise_action, parse_act, parse_reconstruct
from mh_train.agent.prompts import Prompts, Rendered, Situation
from mh_train.agent.speaker import Speaker, TurnRequest
from mh_train.agent.types import MemoryHit, MemoryQuery, MemoryReader, Retrieval, Step, Trajectory, Turn, TurnKind
from mh_train.engine.base import Sampling, noise_key


class EpisodeObservation(Protocol):
    """What the loop reads of an observation (the shape of `envs.base.Observation`)."""

    @property
    def admissible(self) -> tuple[str, ...]:
        """Actions the environment would take."""

    @property
    def goal(self) -> str:
        """T."""

    @property
    def score(self) -> float:
        """Task score in [0, 1]."""

    @property
    def won(self) -> bool:
        """The benchmark's own success."""

    @property
    def done(self) -> bool:
        """Whether the episode is over."""

    @property
    def accepted(self) -> bool:
        """Whether the action that led here was admissible."""

    def for_prompt(self) -> str:
        """The text that a prompt shows."""


class EpisodeEnv(Protocol):
    """One environment with its task already chosen. What it raises ends the episode and reaches the caller."""

    async def reset(self) -> EpisodeObservation:
        """Start the episode."""

    async def step(self, action: str) -> EpisodeObservation:
        """Apply one action."""


@dataclass(frozen=True)
class EpisodeSpec:
    """Which episode to play and by which rules; `use` and `trigger` are the values of the config enums."""

    id: str
    env: str
    split: str
    task_id: str
    task_type: str
    group: int
    episode: int
    noise_parts: tuple[int | str, ...]
    horizon: int = 50
    """Environment steps."""
    use: str = "reconstruct"
    trigger: str = "agentic"
    max_retrievals: int = 5
    retrieval_costs_step: bool = False
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 512
    lowercase_actions: bool = False
    train_reconstruct: bool = True

    @property
    def may_ask(self) -> bool:
        """Whether the policy itself decides to retrieve (format part 2 then counts)."""
        return self.use != "none" and self.trigger == "agentic"


async def run_episode(
    spec: EpisodeSpec, env: EpisodeEnv, speaker: Speaker, prompts: Prompts, memory: MemoryReader | None
) -> Trajectory:
    """Play one episode. Errors of the environment and of the engine go to the caller; bad completions never raise."""
    if memory is None and spec.use != "none":
        raise ValueError(f"Episode {spec.id} has use={spec.use} but no memory; give a MemoryReader or use=none.")
    started = time.perf_counter()
    observation = await env.reset()
    trajectory = Trajectory(
        spec.id, spec.env, spec.split, spec.task_id, spec.task_type, observation.goal, spec.group, spec.episode
    )
    trajectory.memory_mode = spec.use
    episode = _Episode(spec, env, speaker, prompts, memory, trajectory)
    while not observation.done and episode.spent < spec.horizon:
        observation = await episode.advance(observation)
    trajectory.final_observation = observation.for_prompt()
    trajectory.won, trajectory.score = observation.won, observation.score
    trajectory.truncated = not observation.done
    trajectory.seconds = time.perf_counter() - started
    return trajectory


@dataclass
class _Episode:
    spec: EpisodeSpec
    env: EpisodeEnv
    speaker: Speaker
    prompts: Prompts
    memory: MemoryReader | None
    trajectory: Trajectory
    spent: int = 0

    async def advance(self, observation: EpisodeObservation) -> EpisodeObservation:
        """One environment step: ask memory where the trigger or the policy says so, then act."""
        retrieval = None
        if self.spec.use != "none" and self.spec.trigger == "always":
            retrieval = await self._retrieve(observation, observation.for_prompt())
        reply = await self._act(observation, retrieval)
        if reply.query is not None:
            retrieval = await self._retrieve(observation, collapse(reply.query))
            self.spent += self.spec.retrieval_costs_step
            if self.spent >= self.spec.horizon:
                return observation
            reply = await self._act(observation, retrieval)
        return await self._execute(observation, reply.action, retrieval)

    async def _act(self, observation: EpisodeObservation, retrieval: Retrieval | None) -> ActReply:
        """An act turn; a query where none was offered is malformed and dropped."""
        offer = retrieval is None and self.spec.may_ask and len(self.trajectory.retrievals) < self.spec.max_retrievals
        guidance = None if retrieval is None else retrieval.guidance
        hits = retrieval.hits if retrieval is not None and retrieval.outcome == "replayed" else ()
        rendered = self.prompts.act(self._situation(observation), guidance=guidance, hits=hits, offer_memory=offer)
        turn = await self._speak("act", rendered, observation, guidance=guidance or "", hits=hits, offer_memory=offer)
        reply = parse_act(turn.text, self.prompts.preset.query_tag)
        if reply.query is not None and not offer:
            reply = replace(reply, query=None, well_formed=False)
        turn.well_formed = reply.well_formed
        return reply

    async def _retrieve(self, observation: EpisodeObservation, text: str) -> Retrieval:
        """Ask the bank, and have the records rewritten for this state unless the use mode replays them."""
        spec, trajectory = self.spec, self.trajectory
        shown = observation.for_prompt()
        assert self.memory is not None
        found = await self.memory.retrieve(
            MemoryQuery(text, spec.env, spec.task_id, spec.task_type, trajectory.goal, shown)
        )
        retrieval = Retrieval(len(trajectory.steps), text, tuple(found), "replayed" if found else "empty")
        if found and spec.use != "replay":
            await self._reconstruct(observation, retrieval)
        trajectory.retrievals.append(retrieval)
        return retrieval

    async def _reconstruct(self, observation: EpisodeObservation, retrieval: Retrieval) -> None:
        rendered = self.prompts.reconstruct(self._situation(observation), retrieval.hits)
        turn = await self._speak("reconstruct", rendered, observation, hits=retrieval.hits)
        turn.trainable = self.spec.train_reconstruct and self.spec.use != "external"
        reply = parse_reconstruct(turn.text)
        turn.well_formed = reply.well_formed and turn.finish_reason == "stop"
        retrieval.guidance = reply.guidance
        retrieval.outcome = "accepted" if reply.guidance else "rejected"

    async def _execute(
        self, observation: EpisodeObservation, raw: str | None, retrieval: Retrieval | None
    ) -> EpisodeObservation:
        """Step the environment; without a readable action the step is lost and the state stays."""
        step = Step(observation.for_prompt(), tuple(observation.admissible), malformed=raw is None)
        step.guidance = retrieval.guidance if retrieval is not None else ""
        if raw is not None:
            step.raw_action = raw
            step.action = normalise_action(raw, self.spec.lowercase_actions)
            observation = await self.env.step(step.action)
            step.inadmissible = not observation.accepted
        self.trajectory.steps.append(step)
        self.spent += 1
        return observation

    async def _speak(
        self,
        kind: TurnKind,
        rendered: Rendered,
        observation: EpisodeObservation,
        *,
        guidance: str = "",
        hits: Sequence[MemoryHit] = (),
        offer_memory: bool = False,
    ) -> Turn:
        spec, trajectory = self.spec, self.trajectory
        completion = await self.speaker.speak(
            TurnRequest(
                kind=kind,
                step=len(trajectory.steps),
                prompt_ids=rendered.ids,
                sampling=Sampling(spec.temperature, spec.top_p, spec.top_k, spec.max_tokens),
                noise=noise_key(*spec.noise_parts, len(trajectory.turns)),
                goal=trajectory.goal,
                observation=observation,
                guidance=guidance,
                hits=hits,
                offer_memory=offer_memory,
                messages=rendered.messages,
            )
        )
        turn = Turn(
            kind=kind,
            step=len(trajectory.steps),
            prompt_ids=rendered.ids,
            completion_ids=completion.token_ids,
            logprobs=completion.logprobs,
            text=completion.text,
            finish_reason=completion.finish_reason,
        )
        trajectory.turns.append(turn)
        trajectory.shortened_prompts += rendered.shortened
        return turn

    def _situation(self, observation: EpisodeObservation) -> Situation:
        return Situation(self.trajectory.goal, self.trajectory.steps, observation.for_prompt(), observation.admissible)
