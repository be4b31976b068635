"""What benchmark/training_throughput.py compares the algorithm files with: Stable-Baselines3, a loop like CleanRL's.

Both run the algorithm files' own network and action distribution, over games of SC2Env one after the other in this
process, as their users would have it on one core.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import DummyVecEnv
from torch import Tensor

Observation = dict[str, Tensor]


@dataclass
class Update:
    """What one update of a training took, in seconds."""

    ended: float  # when, on the training's own clock
    steps: int  # env steps that it learnt from
    play: float  # from before its first action until after its last env step
    environment: float | None  # of that, inside the games' step; None where no clock was around it
    learn: float  # from then on until the weights had changed


@dataclass
class Stopwatch:
    """The updates of a training that says when it begins to play, has played and has learnt."""

    updates: list[Update] = field(default_factory=list)
    environment: float = 0.0
    begun: float = 0.0
    played: float = 0.0

    def begin(self) -> None:
        self.begun, self.environment = time.perf_counter(), 0.0

    def has_played(self) -> None:
        self.played = time.perf_counter()

    def has_learnt(self, steps: int) -> None:
        now = time.perf_counter()
        self.updates.append(Update(now, steps, self.played - self.begun, self.environment, now - self.played))

    def around(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """The games' step with a clock around it."""

        def timed(*arguments: Any, **keywords: Any) -> Any:
            start = time.perf_counter()
            results = step(*arguments, **keywords)
            self.environment += time.perf_counter() - start
            return results

        return timed


class ActorCritic(nn.Module):
    """The algorithm files' agent, with the methods that CleanRL gives to one."""

    def __init__(self, module: ModuleType, agent: nn.Module, argument_mask: Tensor, norm_ent: bool) -> None:
        super().__init__()
        self.agent, self.argument_mask, self.norm_ent = agent, argument_mask, norm_ent
        # those of the file itself, so that the mathematics is the same
        self.sample_actions, self.log_prob_and_entropy = module.sample_actions, module.log_prob_and_entropy

    def get_value(self, observation: Observation) -> Tensor:
        value: Tensor = self.agent(observation)[1]
        return value

    def get_action_and_value(
        self, observation: Observation, action: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Action (N, 1 + A), drawn where none is given; its log-probability, the entropy and the value, (N,)."""
        logits, value = self.agent(observation)
        if action is None:
            uniform = torch.rand(len(value), len(logits), dtype=torch.float64)
            action = self.sample_actions(logits, uniform, self.argument_mask)
        return action, *self.log_prob_and_entropy(logits, action, self.argument_mask, self.norm_ent), value


# ---- Stable-Baselines3 -------------------------------------------------------------------------------------------


class AgentPolicy(ActorCriticPolicy):
    """Stable-Baselines3's policy with our agent as all of its network."""

    def __init__(self, *arguments: Any, make_actor_critic: Callable[[], ActorCritic], **keywords: Any) -> None:
        self.make_actor_critic = make_actor_critic
        super().__init__(*arguments, **keywords)

    def _build(self, lr_schedule: Callable[[float], float]) -> None:
        self.actor_critic = self.make_actor_critic()
        self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)

    def forward(self, obs: Observation, deterministic: bool = False) -> tuple[Tensor, Tensor, Tensor]:
        assert not deterministic, "training draws its actions"
        action, log_prob, _, value = self.actor_critic.get_action_and_value(obs)
        return action, value, log_prob

    def evaluate_actions(self, obs: Observation, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        _, log_prob, entropy, value = self.actor_critic.get_action_and_value(obs, actions.long())
        return value, log_prob, entropy

    def predict_values(self, obs: Observation) -> Tensor:
        return self.actor_critic.get_value(obs)


def make_env(flags: Any) -> gym.Env[Any, Any]:
    """One game. Without the large flat mask, which the action distribution does not need; without a wrapper that keeps
    the episodes' returns, though the algorithm files keep them."""
    return gym.make(
        flags.env_id,
        screen_size=flags.screen_size,
        minimap_size=flags.minimap_size,
        step_mul=flags.step_mul,
        mask="none",
    )


def make_stable_baselines3(
    algorithm: str, flags: Any, make_actor_critic: Callable[[], ActorCritic], envs: DummyVecEnv
) -> A2C | PPO:
    """The model with the settings that the algorithm file has by its flags."""
    settings = {
        "learning_rate": flags.learning_rate,
        "n_steps": flags.num_steps,
        "gamma": flags.gamma,
        "gae_lambda": flags.gae_lambda,
        "ent_coef": flags.ent_coef,
        "vf_coef": flags.vf_coef,
        "max_grad_norm": flags.max_grad_norm,
        "normalize_advantage": flags.norm_adv,
        "policy_kwargs": {"make_actor_critic": make_actor_critic},
        "seed": flags.seed,
        "device": "cpu",
    }
    if algorithm == "A2C":
        # RMSprop is its default, and what the algorithm file is told to take
        return A2C(AgentPolicy, envs, rms_prop_eps=flags.optimizer_eps, **settings)
    minibatch = flags.num_envs * flags.num_steps // flags.num_minibatches
    epochs = {"n_epochs": flags.update_epochs, "batch_size": minibatch, "clip_range": flags.clip_coef}
    return PPO(AgentPolicy, envs, **epochs, **settings)


def train_stable_baselines3(
    algorithm: str, flags: Any, make_actor_critic: Callable[[], ActorCritic], updates: int
) -> list[Update]:
    envs = DummyVecEnv([partial(make_env, flags)] * flags.num_envs)
    model = make_stable_baselines3(algorithm, flags, make_actor_critic, envs)
    stopwatch, batch = Stopwatch(), flags.num_envs * flags.num_steps
    collect_rollouts, train = model.collect_rollouts, model.train

    def timed_collect_rollouts(*arguments: Any, **keywords: Any) -> bool:
        # what follows the last step, a value and the returns, is learning in the algorithm files, so it is here
        add = model.rollout_buffer.add

        def timed_add(*parts: Any, **keywords: Any) -> None:
            add(*parts, **keywords)
            stopwatch.has_played()

        model.rollout_buffer.add = timed_add
        stopwatch.begin()
        try:
            return collect_rollouts(*arguments, **keywords)
        finally:
            model.rollout_buffer.add = add

    def timed_train() -> None:
        train()
        stopwatch.has_learnt(batch)

    envs.step = stopwatch.around(envs.step)
    model.collect_rollouts, model.train = timed_collect_rollouts, timed_train
    try:
        model.learn(updates * batch)
    finally:
        envs.close()
    return stopwatch.updates


# ---- a loop like CleanRL's ---------------------------------------------------------------------------------------


def train_like_cleanrl(flags: Any, make_actor_critic: Callable[[], ActorCritic], updates: int) -> list[Update]:
    """PPO in the structure of CleanRL's ppo_atari.py: tensors that are filled step by step, then minibatches of indices
    that are shuffled over the flattened batch. Observations are kept in their own types, not in float32 as there, and
    nothing is logged: both makes it faster."""
    num_steps, num_envs = flags.num_steps, flags.num_envs
    batch_size = num_steps * num_envs
    minibatch_size = batch_size // flags.num_minibatches
    # an env that has ended resets within its step, as in the version of Gymnasium that CleanRL is written for
    envs = SyncVectorEnv([partial(make_env, flags)] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)
    stopwatch, generator = Stopwatch(), np.random.default_rng(flags.seed)
    step_envs = stopwatch.around(envs.step)
    agent = make_actor_critic()
    optimizer = torch.optim.Adam(agent.parameters(), lr=flags.learning_rate, eps=1e-5)

    def as_tensors(observation: dict[str, np.ndarray]) -> Observation:
        return {name: torch.from_numpy(array) for name, array in observation.items()}

    next_obs = as_tensors(envs.reset(seed=flags.seed)[0])
    next_done = torch.zeros(num_envs)
    obs = {name: torch.zeros((num_steps, *part.shape), dtype=part.dtype) for name, part in next_obs.items()}
    actions = torch.zeros((num_steps, *envs.action_space.shape), dtype=torch.int64)
    logprobs, rewards, dones, values = (torch.zeros((num_steps, num_envs)) for _ in range(4))

    for _ in range(updates):
        stopwatch.begin()
        for step in range(num_steps):
            for name, part in next_obs.items():
                obs[name][step] = part
            dones[step] = next_done
            with torch.no_grad():
                action, logprob, _, value = agent.get_action_and_value(next_obs)
            values[step], actions[step], logprobs[step] = value, action, logprob
            observation, reward, terminations, truncations, _ = step_envs(action.numpy())
            rewards[step] = torch.from_numpy(reward)
            next_obs = as_tensors(observation)
            next_done = torch.from_numpy(np.logical_or(terminations, truncations)).float()
        stopwatch.has_played()

        with torch.no_grad():
            next_value = agent.get_value(next_obs)
            advantages = torch.zeros_like(rewards)
            lastgaelam = torch.zeros(num_envs)
            for t in reversed(range(num_steps)):
                last = t == num_steps - 1
                nextnonterminal = 1.0 - (next_done if last else dones[t + 1])
                nextvalues = next_value if last else values[t + 1]
                delta = rewards[t] + flags.gamma * nextvalues * nextnonterminal - values[t]
                lastgaelam = delta + flags.gamma * flags.gae_lambda * nextnonterminal * lastgaelam
                advantages[t] = lastgaelam
            returns = advantages + values

        b_obs = {name: part.flatten(0, 1) for name, part in obs.items()}
        b_actions = actions.flatten(0, 1)
        b_logprobs, b_advantages, b_returns = logprobs.flatten(), advantages.flatten(), returns.flatten()
        b_inds = np.arange(batch_size)
        for _ in range(flags.update_epochs):
            generator.shuffle(b_inds)
            for start in range(0, batch_size, minibatch_size):
                mb_inds = torch.from_numpy(b_inds[start : start + minibatch_size])
                mb_obs = {name: part[mb_inds] for name, part in b_obs.items()}
                _, newlogprob, entropy, newvalue = agent.get_action_and_value(mb_obs, b_actions[mb_inds])
                ratio = (newlogprob - b_logprobs[mb_inds]).exp()
                mb_advantages = b_advantages[mb_inds]
                if flags.norm_adv:
                    mb_advantages = (mb_advantages - mb_advantages.mean()) / (mb_advantages.std() + 1e-8)
                pg_loss1 = -mb_advantages * ratio
                pg_loss2 = -mb_advantages * ratio.clamp(1 - flags.clip_coef, 1 + flags.clip_coef)
                pg_loss = torch.max(pg_loss1, pg_loss2).mean()
                v_loss = ((newvalue - b_returns[mb_inds]) ** 2).mean()
                loss = pg_loss - flags.ent_coef * entropy.mean() + flags.vf_coef * v_loss
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), flags.max_grad_norm)
                optimizer.step()
        stopwatch.has_learnt(batch_size)
    envs.close()
    return stopwatch.updates
