"""Advantage actor-critic on StarCraft II mini-games, in one process. The file to read first.

    python algorithms/a2c_sc2.py --env-id SC2MoveToBeacon-v0
    python algorithms/a2c_sc2.py --resume auto
    python algorithms/a2c_sc2.py --evaluate runs/<run>/checkpoints/<checkpoint>.pt

Play `num_steps` steps in `num_envs` games, compute the discounted return of every step, take one gradient step on
policy loss + value loss - entropy bonus, repeat: the loss of A3C (Mnih et al. 2016) in its synchronous form. The
network is a small relative of FullyConv (Vinyals et al. 2017, "StarCraft II: A New Challenge for Reinforcement
Learning"). `a2c_sc2_multigpu.py` is the same over many processes, with more options. Docs: docs/algorithms/a2c.md
"""

import importlib.util
import sys
import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import NamedTuple

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import tyro
from gymnasium.vector import AutoresetMode
from torch import Tensor

from sc2_envs import SC2VectorEnv, allocator, run_folder, video
from sc2_envs.actions import SPATIAL_ARGUMENTS
from sc2_envs.engine import ENGINE_VERSION
from sc2_envs.features import Layer


@dataclass
class Args:
    exp_name: str = Path(__file__).stem
    """the name of this experiment"""
    seed: int = 1
    """seed of the games, the weights and the action noise"""
    torch_deterministic: bool = True
    """if toggled, cuDNN uses deterministic kernels only"""
    cuda: bool = True
    """if toggled, a GPU is used where there is one"""
    num_threads: int = 0
    """CPU threads of PyTorch; 0: its own choice"""
    track: bool = False
    """if toggled, this experiment is tracked with Weights and Biases"""
    wandb_project_name: str = "sc2-envs"
    """the project's name at Weights and Biases"""
    wandb_entity: str | None = None
    """the entity (team) of the project at Weights and Biases"""
    runs_dir: str = "runs"
    """the folder of run folders"""
    run_name: str = ""
    """name of the run folder; default <env_id>__<exp_name>__<seed>__<unix time>"""
    resume: str = ""
    """a checkpoint to continue, or "auto": the newest of --run-name, else of the newest unfinished run like this"""
    evaluate: str = ""
    """a checkpoint to evaluate instead of training"""
    checkpoint_every: int = 100
    """updates between two checkpoints"""
    keep_checkpoints: int = 3
    """how many checkpoints stay on disk"""
    eval_episodes: int = 100
    """episodes played after training, with seeds never trained on; 0: none"""
    capture_video: bool = True
    """if toggled, an episode of the trained agent is filmed"""

    # Algorithm specific arguments
    env_id: str = "SC2MoveToBeacon-v0"
    """the environment"""
    screen_size: int = 16
    """side of the screen's layers in pixels"""
    minimap_size: int = 16
    """side of the minimap's layers in pixels"""
    step_mul: int = 8
    """game loops of one env step"""
    total_timesteps: int = 400_000
    """env steps of the whole run"""
    max_training_minutes: float = 0.0
    """end the training after this time; 0: no limit"""
    num_envs: int = 64
    """games played side by side"""
    num_steps: int = 16
    """steps of each game between two updates"""
    hidden_size: int = 128
    """width of the network's dense layer"""
    learning_rate: float = 1e-3
    """the learning rate of Adam"""
    anneal_lr: bool = True
    """if toggled, the learning rate falls linearly to 0 at --total-timesteps"""
    gamma: float = 0.99
    """the discount factor per env step"""
    gae_lambda: float = 0.95
    """the lambda of generalised advantage estimation; 1: plain n-step returns"""
    norm_adv: bool = True
    """if toggled, advantages are normalised over the batch"""
    ent_coef: float = 1e-2
    """coefficient of the entropy bonus"""
    norm_ent: bool = True
    """if toggled, the entropy of the function and of each argument counts as a share of the largest possible one"""
    anneal_ent: bool = True
    """if toggled, the entropy bonus falls linearly to 0 at --total-timesteps"""
    vf_coef: float = 0.05
    """coefficient of the value loss"""
    norm_value_loss: bool = True
    """if toggled, the value's errors count in units of their root mean square, where that is more than a point"""
    max_grad_norm: float = 0.5
    """the gradient is clipped to this L2 norm"""


# --- random streams: every game has its own, keyed by (seed, index of the env in the whole job) ---------------------
TRAINING, ACTION_NOISE, EVALUATION, EVALUATION_NOISE = (), (1,), (2,), (3,)


def stream_seeds(seed: int, env_indices, branch: tuple = TRAINING) -> list[int]:
    """A 64-bit seed for each env index. No two (seed, index, branch) share a stream, unlike seed + index."""
    states = [
        np.random.SeedSequence(seed, spawn_key=(int(i), *branch)).generate_state(1, np.uint64) for i in env_indices
    ]
    return [int(state[0]) for state in states]


def uniforms(keys: np.ndarray, step: int, number: int) -> np.ndarray:
    """Uniform numbers in [0, 1), (len(keys), number) float64: those that belong to `step` in each key's stream.

    SplitMix64 as a function of a counter: what env 5 draws at step 70 depends on nothing else, so it is the same
    however the games are spread over processes, and a resumed run needs no generator state.
    """
    counter = np.uint64(step * number + 1) + np.arange(number, dtype=np.uint64)
    x = keys[:, None] + counter * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


# --- the network -----------------------------------------------------------------------------------------------------
def layer_init(layer: nn.Module, std: float = 2**0.5, bias_const: float = 0.0) -> nn.Module:
    nn.init.orthogonal_(layer.weight, std)
    if layer.bias is not None:
        nn.init.constant_(layer.bias, bias_const)
    return layer


class Planes(nn.Module):
    """Feature layers (N, C, H, W) uint8 -> float planes (N, P, H, W), 0 where there is nothing: amounts become 0 to 1,
    a few categories one plane each, many categories (unit types) a few learnt planes."""

    def __init__(self, layers: tuple[Layer, ...], max_one_hot: int = 8, embedding_size: int = 3):
        super().__init__()
        self.layers = layers
        many = [layer.name for layer in layers if layer.categorical and layer.scale > max_one_hot]
        self.embeddings = nn.ModuleDict({name: nn.Embedding(256, embedding_size, padding_idx=0) for name in many})
        self.register_buffer("categories", torch.arange(1, max_one_hot, dtype=torch.uint8), persistent=False)

    def forward(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        planes = []
        for values, layer in zip(x.unbind(1), self.layers, strict=True):
            if layer.name in self.embeddings:
                planes.append(self.embeddings[layer.name](values.int()))
            elif layer.categorical:
                planes.append((values[..., None] == self.categories[: layer.scale - 1]).to(dtype))
            else:
                planes.append(values[..., None].to(dtype) / (min(layer.scale, 256) - 1))
        return torch.cat(planes, -1).permute(0, 3, 1, 2)  # NCHW in channels-last memory: no copy

    def channels(self) -> int:
        return self(torch.zeros(1, len(self.layers), 1, 1, dtype=torch.uint8), torch.float32).shape[1]


class Agent(nn.Module):
    """Two convolutions over the screen, two over the minimap, a dense layer; a head for the value, for the function and
    for each argument, which has an output of its own for every function that takes it. Spatial heads are 1x1
    convolutions: a pixel's logit comes from what is seen around that pixel, and a little more where a unit is seen."""

    def __init__(self, envs: SC2VectorEnv, hidden_size: int = 128, pooled: int = 4):
        super().__init__()
        action_set, space = envs.action_set, envs.single_observation_space
        self.arguments, self.sizes, self.pooled = action_set.arguments, action_set.nvec[1:].tolist(), pooled
        vector_size = space["player"].shape[0] + space["available_actions"].shape[0]
        self.planes, self.convolutions, self.broadcast = nn.ModuleDict(), nn.ModuleDict(), nn.ModuleDict()
        self.owner = {}  # index of the layer that says whose unit a pixel shows
        for name, layers in (("screen", envs.screen_layers), ("minimap", envs.minimap_layers)):
            names = [layer.name for layer in layers]
            if "player_relative" not in names:
                raise ValueError(f"{name}_layers {names}: the agent needs player_relative too, to see where units are")
            self.owner[name] = names.index("player_relative")
            self.planes[name] = Planes(layers)
            channels = self.planes[name].channels()
            # a minimap that no function points to is only summarised, for which half its resolution does
            stride = 2 if name == "minimap" and "minimap" not in self.arguments else 1
            # most planes are zero nearly everywhere: with the usual deviation all pixels would look alike at first,
            # all the more beside large numbers of the player
            first = layer_init(nn.Conv2d(channels, 16, 5, stride, padding=2), std=5.0)
            self.convolutions[name] = nn.ModuleList([first, layer_init(nn.Conv2d(16, 32, 3, padding=1))])
            self.broadcast[name] = layer_init(nn.Linear(vector_size, 32), std=0.1)
        self.dense = layer_init(nn.Linear(2 * 32 * pooled**2 + vector_size, hidden_size))
        self.value = layer_init(nn.Linear(hidden_size, 1), std=1.0)
        self.function = layer_init(nn.Linear(hidden_size, len(action_set.functions)), std=0.01)
        self.argument, self.attraction = nn.ModuleDict(), nn.ParameterDict()
        functions = action_set.argument_mask.sum(0)  # that take each argument
        for name, count, size in zip(self.arguments, functions, action_set.nvec[1:], strict=True):
            if name in SPATIAL_ARGUMENTS:
                head = nn.Conv2d(32, int(count), 1, bias=False)  # the same more for every pixel would change nothing
                # what to click on is a unit more often than not: at first, e^3 = 20 times as often as another pixel
                self.attraction[name] = nn.Parameter(torch.full((int(count), 1), 3.0))
            else:
                head = nn.Linear(hidden_size, int(count * size))
            self.argument[name] = layer_init(head, std=0.01)
        self.to(memory_format=torch.channels_last)

    def forward(self, observation: dict[str, Tensor]) -> tuple[list[Tensor], Tensor]:
        """Logits and values of N observations.

        Returns:
            The logits of the functions, (N, F), -inf for illegal ones, followed by those of each argument,
            (N, functions that take it, size of the argument); and the values, (N,).
        """
        dtype = self.value.weight.dtype
        available = observation["available_actions"].bool()
        vector = torch.cat([observation["player"].to(dtype), available.to(dtype)], 1)
        seen, state = {}, [vector]
        for name in ("screen", "minimap"):
            first, second = self.convolutions[name]
            x = F.relu_(first(self.planes[name](observation[f"feature_{name}"], dtype)))
            # a bias a channel: the same as concatenating the vector's entries as constant planes, for free
            seen[name] = F.relu_(second(x).add_(self.broadcast[name](vector)[:, :, None, None]))
            summary = F.adaptive_avg_pool2d(seen[name], self.pooled)
            state.append(summary.permute(0, 2, 3, 1).flatten(1))  # in the order of its memory: no copy
        state = F.relu(self.dense(torch.cat(state, 1)))
        logits = [self.function(state).masked_fill(~available, -torch.inf)]
        for name, size in zip(self.arguments, self.sizes, strict=True):
            head = self.argument[name]
            if name in SPATIAL_ARGUMENTS:
                place = "minimap" if name == "minimap" else "screen"
                shows_unit = observation[f"feature_{place}"][:, self.owner[place]].flatten(1)[:, None] > 0
                logits.append(head(seen[place]).flatten(2) + self.attraction[name] * shows_unit)
            else:
                logits.append(head(state).unflatten(1, (-1, size)))
        return logits, self.value(state)[:, 0]


# --- the action: a function, then each of its arguments on its own --------------------------------------------------
def sample_index(logits: Tensor, uniform: Tensor) -> Tensor:
    """The index whose slice of the cumulative distribution holds `uniform`, (N,); one of logit -inf has no slice."""
    cumulative = logits.softmax(-1).double().cumsum(-1)
    return (cumulative <= uniform[:, None] * cumulative[:, -1:]).sum(-1)


def given_function(logits: list[Tensor], function: Tensor, argument_mask: Tensor) -> list[Tensor]:
    """Logits of each component of the action, (N, size), for these functions (N,).

    `argument_mask[f, a]`, (F, A) bool, says whether function f takes argument a. Where it does not, the logits mean
    nothing.
    """
    rows = (argument_mask.cumsum(0) - 1).clamp(min=0)[function]  # (N, A): place of f among those that take a
    games = torch.arange(len(function), device=function.device)
    return [logits[0], *(component[games, row] for component, row in zip(logits[1:], rows.unbind(1), strict=True))]


def sample_actions(logits: list[Tensor], uniform: Tensor | None, argument_mask: Tensor) -> Tensor:
    """Action (N, 1 + A) from the agent's logits and a uniform number a component, (N, 1 + A); None: the likeliest."""

    def choose(component, i):
        return component.argmax(-1) if uniform is None else sample_index(component.detach(), uniform[:, i])

    function = choose(logits[0], 0)
    arguments = given_function(logits, function, argument_mask)[1:]
    return torch.stack([function, *(choose(component, i) for i, component in enumerate(arguments, 1))], 1)


def log_prob_and_entropy(
    logits: list[Tensor], action: Tensor, argument_mask: Tensor, norm_ent: bool = False
) -> tuple[Tensor, Tensor]:
    """Log-probability of the action (N, 1 + A) and entropy of the policy, (N,) each; both count only what the function
    uses.

    An argument that the function does not take changes nothing in the game, so it gets no gradient: the screen head
    learns nothing from a no-op.
    """
    used = torch.cat([torch.ones_like(action[:, :1], dtype=torch.bool), argument_mask[action[:, 0]]], 1)
    log_probs, entropies = [], []
    for component, chosen in zip(given_function(logits, action[:, 0], argument_mask), action.unbind(1), strict=True):
        log_p = component.log_softmax(-1)
        log_probs.append(log_p.gather(1, chosen[:, None])[:, 0])
        entropy = -(log_p.exp() * log_p.masked_fill(log_p == -torch.inf, 0.0)).sum(-1)
        # a point on the screen would else weigh several times as much as the function that it belongs to
        entropies.append(entropy / np.log(max(2, component.shape[1])) if norm_ent else entropy)
    return (torch.stack(log_probs, 1) * used).sum(1), (torch.stack(entropies, 1) * used).sum(1)


# --- returns ---------------------------------------------------------------------------------------------------------
def n_step_returns(
    reward: Tensor, terminated: Tensor, truncated: Tensor, next_value: Tensor, gamma: float, gae_lambda: float = 1.0
) -> Tensor:
    """Discounted returns, all tensors (T, B). With gae_lambda < 1 those of TD(lambda): minus the value, they are GAE.

    next_value[t] is the value of the state that step t led to: of the final observation where the episode ended
    there. A truncated step is worth what would have followed it; a terminated one is followed by nothing.
    """
    returns = torch.empty_like(next_value)
    following = next_value[-1]
    for t in reversed(range(len(reward))):
        # a new episode owes nothing to the one before it
        following = torch.where(terminated[t] | truncated[t], next_value[t], following)
        following = next_value[t] + gae_lambda * (following - next_value[t])
        following = reward[t] + gamma * following * ~terminated[t]
        returns[t] = following
    return returns


# --- play ------------------------------------------------------------------------------------------------------------
class Rollout:
    """A batch of T steps x B games, allocated once; the games write their observations straight into it.

    observation: by name, (T + 1, B, ...): the last row is what the last step led to, the first row of the next rollout
    action: (T, B, 1 + A) int64
    reward: (T, B) float32
    terminated, truncated: (T, B) bool
    valid: (T, B) bool, False where a game only reset itself: nothing to learn, and no step
    ended: (B,) bool, games whose next step is such a reset
    episodes: (return, length) of those that ended in this rollout
    invalid_actions: how many actions of this rollout the game refused
    """

    def __init__(self, envs: SC2VectorEnv, num_steps: int):
        shape = (num_steps, envs.num_envs)
        self.observation = {
            name: np.zeros((num_steps + 1, envs.num_envs, *space.shape), space.dtype)
            for name, space in envs.single_observation_space.items()
        }
        self.action = np.zeros((*shape, len(envs.action_set.nvec)), np.int64)
        self.reward = np.zeros(shape, np.float32)
        self.terminated = np.zeros(shape, bool)
        self.truncated = np.zeros(shape, bool)
        self.valid = np.zeros(shape, bool)
        self.ended = np.zeros(envs.num_envs, bool)
        self.episodes: list[tuple[float, int]] = []
        self.invalid_actions = 0

    def start_from(self, observation: dict[str, np.ndarray]) -> None:
        """The next rollout begins with this observation of all games."""
        for name, array in self.observation.items():
            array[-1] = observation[name]

    def observe(self, t: int, device: torch.device) -> dict[str, Tensor]:
        """The observations that step t acted on, by name, (B, ...)."""
        return {name: torch.from_numpy(array[t]).to(device) for name, array in self.observation.items()}


class ForwardPass(NamedTuple):
    """What the network said of the actions of one step, (B,) each. Where the graph that leads back to the weights is
    kept, the update can go backward through the very pass that chose them: the network runs once a step, not twice."""

    log_prob: Tensor
    entropy: Tensor
    value: Tensor


def play(envs, agent, rollout, noise_keys, env_step, device, norm_ent=False) -> list[ForwardPass]:
    """Play T steps of every game into the rollout. Returns the forward pass of each step, for the update.

    noise_keys: (B,) uint64, the streams of the action noise; env_step: how many steps each game has behind it
    """
    argument_mask = torch.tensor(envs.action_set.argument_mask, device=device)
    rollout.episodes, rollout.invalid_actions = [], 0
    for array in rollout.observation.values():
        array[0] = array[-1]
    passes = []
    for t in range(len(rollout.reward)):
        check_rows(rollout, t, env_step)
        logits, value = agent(rollout.observe(t, device))
        noise = torch.from_numpy(uniforms(noise_keys, env_step + t, len(logits))).to(device)
        action = sample_actions(logits, noise, argument_mask)
        passes.append(ForwardPass(*log_prob_and_entropy(logits, action, argument_mask, norm_ent), value))

        rollout.action[t] = action.cpu()
        out = {name: array[t + 1] for name, array in rollout.observation.items()}
        _, reward, terminated, truncated, info = envs.step(rollout.action[t], out=out)
        rollout.reward[t], rollout.terminated[t], rollout.truncated[t] = reward, terminated, truncated
        rollout.valid[t] = ~rollout.ended
        rollout.ended = terminated | truncated
        rollout.invalid_actions += int((info["invalid_action"] & rollout.valid[t]).sum())
        ends = np.flatnonzero(rollout.ended)
        rollout.episodes += zip(
            info["episode_return"][ends].tolist(), info["episode_length"][ends].tolist(), strict=True
        )
    check_rows(rollout, len(rollout.reward), env_step)
    return passes


def check_rows(rollout: Rollout, t: int, env_step: int) -> None:
    """Stop where the first bad number comes from; later it would be an error of something else."""
    good = {
        "offers no legal function": rollout.observation["available_actions"][t].any(-1),
        "has a non-finite observation": np.isfinite(rollout.observation["player"][t]).all(-1),
        "gave a non-finite reward": np.isfinite(rollout.reward[t - 1]) | (t == 0),
    }
    for problem, rows in good.items():
        if not rows.all():
            i = int(rows.argmin())
            after = f" after action {rollout.action[t - 1, i].tolist()}" if t else ""
            raise FloatingPointError(f"env {i} {problem} at its step {env_step + t}{after}")


# --- learn -----------------------------------------------------------------------------------------------------------
def accumulate_gradient(passes, returns, advantage, valid, ent_coef, vf_coef, unit) -> Tensor:
    """Add the gradient of the loss, a mean over the valid steps, to the parameters; values count in `unit`s of reward.

    Returns policy loss, value loss (per squared reward) and entropy, (3,). One step's games at a time: small pieces
    stay in the cache, and each frees its graph.
    """
    sums = 0.0
    for t, (log_prob, entropy, value) in enumerate(passes):
        weight = valid[t].to(value) / valid.sum().clamp(min=1)
        pg_loss = -(advantage[t] * log_prob * weight).sum()
        v_loss = (F.mse_loss(value / unit, returns[t] / unit, reduction="none") * weight).sum()
        entropy_bonus = (entropy * weight).sum()
        (pg_loss + vf_coef * v_loss - ent_coef * entropy_bonus).backward()
        sums = sums + torch.stack([pg_loss, v_loss * unit**2, entropy_bonus]).detach()
    return sums


def learn(agent, optimizer, rollout, passes, args, ent_coef, device) -> dict[str, float]:
    """One update from a rollout and the forward passes that chose its actions. Returns the metrics of the losses."""
    with torch.no_grad():
        value = torch.stack([step.value for step in passes])
        last_value = agent(rollout.observe(-1, device))[1]
        next_value = torch.cat([value[1:], last_value[None]])
        arrays = (rollout.reward, rollout.terminated, rollout.truncated, rollout.valid)
        reward, terminated, truncated, valid = (torch.from_numpy(array).to(device) for array in arrays)
        returns = n_step_returns(reward, terminated, truncated, next_value, args.gamma, args.gae_lambda)
        advantage = returns - value
        used = advantage[valid]
        if args.norm_adv and len(used) > 1:
            advantage = (advantage - used.mean()) / (used.std(correction=0) + 1e-8)
        unit = max(1.0, (used**2).mean().sqrt().item()) if args.norm_value_loss and len(used) else 1.0

    optimizer.zero_grad()
    losses = accumulate_gradient(passes, returns, advantage, valid, ent_coef, args.vf_coef, unit)
    grad_norm = nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
    names = ("losses/policy_loss", "losses/value_loss", "losses/entropy", "losses/grad_norm")
    metrics = dict(zip(names, [*losses.tolist(), grad_norm.item()], strict=True))
    if not np.isfinite(list(metrics.values())).all():
        raise FloatingPointError(f"an update with {metrics} was not made; a lower --learning-rate may help")
    if len(used):  # with nothing to learn from, momentum alone would move the weights
        optimizer.step()
    return metrics


# --- games, evaluation and video -------------------------------------------------------------------------------------
EVALUATION_METRICS = {"sampled": "eval/episodic_return", "greedy": "eval/episodic_return_greedy"}  # by policy


def env_keywords(args) -> dict:
    return {"screen_size": args.screen_size, "minimap_size": args.minimap_size, "step_mul": args.step_mul}


def make_envs(args, num_envs: int) -> SC2VectorEnv:
    envs = gym.make_vec(args.env_id, num_envs=num_envs, **env_keywords(args))
    # a game that has ended resets itself in its next step, so an end's observation is the next row of the rollout
    assert envs.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP, envs.metadata
    return envs


@torch.no_grad()
def evaluate(agent, args, greedy: bool, device, stop) -> list[float]:
    """Returns of the episodes of an evaluation, a game each, so that short ones do not count more often.

    Their seeds are a branch that training never uses. A signal ends it early.
    """
    episodes = range(args.eval_episodes)
    envs = make_envs(args, len(episodes))
    noise_keys = np.array(stream_seeds(args.seed, episodes, EVALUATION_NOISE), np.uint64)
    argument_mask = torch.tensor(envs.action_set.argument_mask, device=device)
    observation, _ = envs.reset(seed=stream_seeds(args.seed, episodes, EVALUATION))
    returns, running, step = np.zeros(len(episodes)), np.ones(len(episodes), bool), 0
    while running.any() and not stop.requested:
        logits, _ = agent({name: torch.from_numpy(array).to(device) for name, array in observation.items()})
        noise = None if greedy else torch.from_numpy(uniforms(noise_keys, step, len(logits))).to(device)
        action = sample_actions(logits, noise, argument_mask).cpu().numpy()
        observation, reward, terminated, truncated, _ = envs.step(action)
        returns += reward * running
        running &= ~(terminated | truncated)
        step += 1
    envs.close()
    return returns.tolist()


@torch.no_grad()
def film(agent, args, path: Path, device) -> str | None:
    """An episode of the sampled policy as a video. Returns the path of the file, None where it cannot be written."""
    env = gym.make(args.env_id, render_mode="rgb_array", **env_keywords(args))
    noise_keys = np.array(stream_seeds(args.seed, [0], EVALUATION_NOISE), np.uint64)
    observation, _ = env.reset(seed=stream_seeds(args.seed, [0], EVALUATION)[0])
    argument_mask = torch.tensor(env.unwrapped.action_set.argument_mask, device=device)
    frames, ended = [env.render()], False
    while not ended:
        logits, _ = agent({name: torch.from_numpy(array[None]).to(device) for name, array in observation.items()})
        noise = torch.from_numpy(uniforms(noise_keys, len(frames) - 1, len(logits))).to(device)
        action = sample_actions(logits, noise, argument_mask)[0].cpu().numpy()
        observation, _, terminated, truncated, _ = env.step(action)
        frames.append(env.render())
        ended = terminated or truncated
    env.close()
    try:
        path = video.write_video(frames, path, fps=4 * 22.4 / args.step_mul)  # four times as fast as the game
    except (OSError, RuntimeError, ValueError) as error:  # a full disk does not undo a training
        print(f"no video: {error}", file=sys.stderr)
        return None
    print(f"video        {path}")
    return str(path)


def evaluate_and_film(agent, args, video_path: Path, device, stop) -> tuple[dict, str | None]:
    """Returns the evaluation, by policy, and the path of a video; a signal leaves out what is to come."""
    evaluation = {}
    for policy in EVALUATION_METRICS if args.eval_episodes else ():
        returns = evaluate(agent, args, policy == "greedy", device, stop)
        if stop.requested:
            return evaluation, None
        evaluation[policy] = run_folder.summary(returns)
        print(f"{policy:7} policy: {run_folder.summary_line(evaluation[policy])}")
    return evaluation, film(agent, args, video_path, device) if args.capture_video else None


# --- runs and checkpoints --------------------------------------------------------------------------------------------
ALGORITHM = "a2c"  # what a checkpoint is of: other weights would not fit, or mean something else
# the games and the network: an evaluation takes them from the checkpoint; a resumed run cannot change the fixed ones
CHECKPOINT_ARGS = ("env_id", "screen_size", "minimap_size", "step_mul", "hidden_size")
FIXED_ARGS = (*CHECKPOINT_ARGS, "seed", "num_envs", "num_steps")


@dataclass
class Counters:
    """How far a run is."""

    update: int = 0
    env_step: int = 0  # steps of each game, resets included: they count the action noise
    global_step: int = 0  # steps learnt from, of all games together
    training_seconds: float = 0.0  # without compilation and evaluation


def start_run(args, folder: Path, config: dict, resumed_at: int | None) -> run_folder.Run:
    """Open the run folder, and with --track a run at Weights and Biases, which gets what TensorBoard gets."""
    if args.track:
        import wandb

        folder.mkdir(parents=True, exist_ok=True)
        name = {"project": args.wandb_project_name, "entity": args.wandb_entity, "name": folder.name}
        wandb.init(**name, config=asdict(args), sync_tensorboard=True, dir=str(folder))
    return run_folder.Run(folder, config, resumed_at)


def end_run(args, run: run_folder.Run) -> None:
    run.close()
    if args.track:
        import wandb

        wandb.finish()


def save_games(envs: SC2VectorEnv, rollout: Rollout) -> dict:
    """The games half played, and what they last showed. The action noise needs no state: env_step counts it."""
    return {
        "envs": torch.frombuffer(bytearray(envs.get_state()), dtype=torch.uint8),
        "observation": {name: torch.tensor(array[-1]) for name, array in rollout.observation.items()},
        "ended": torch.tensor(rollout.ended),
        "torch_random_state": torch.get_rng_state(),
    }


def resume_games(games: dict, envs: SC2VectorEnv, rollout: Rollout) -> None:
    """The games go on where `save_games` left them."""
    envs.set_state(games["envs"].numpy().tobytes())
    rollout.start_from({name: tensor.numpy() for name, tensor in games["observation"].items()})
    rollout.ended[:] = games["ended"].numpy()
    torch.set_rng_state(games["torch_random_state"])


def save_checkpoint(run: run_folder.Run, args, counters: Counters, agent, optimizer, envs, games: list[dict]) -> None:
    """Write a checkpoint into the run folder; `games` are those of each process, from `save_games`."""
    checkpoint = {
        "algorithm": ALGORITHM,
        "agent": agent.state_dict(),
        "optimizer": optimizer.state_dict(),
        **asdict(counters),
        "args": asdict(args),
        "observation_space": str(envs.single_observation_space),
        "action_space": str(envs.single_action_space),
        "engine_version": ENGINE_VERSION,
        "ranks": games,
    }
    run.result |= {"env_steps": counters.global_step, "training_seconds": counters.training_seconds}
    run.result["checkpoint"] = str(run.save_checkpoint(checkpoint, args.keep_checkpoints))


def read_checkpoint(path: str | Path) -> dict:
    """A checkpoint of this algorithm, on the CPU; that of another one is refused."""
    checkpoint = run_folder.read_checkpoint(path)
    made_by = checkpoint.get("algorithm", "an algorithm that it does not name")
    if made_by != ALGORITHM:
        raise SystemExit(f"{path} is a checkpoint of {made_by}; {Path(__file__).name} takes those of {ALGORITHM} only")
    return checkpoint


def resume(checkpoint: dict, agent, optimizer) -> Counters:
    """Weights and optimizer go on from a checkpoint. Returns how far the run was."""
    agent.load_state_dict(checkpoint["agent"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    return Counters(**{field.name: checkpoint[field.name] for field in fields(Counters)})


def check_args(args) -> None:
    """Refuse what is impossible before a single game is started."""
    least = dict.fromkeys(("total_timesteps", "num_envs", "num_steps", "step_mul", "hidden_size"), 1)
    least |= {"checkpoint_every": 1, "keep_checkpoints": 1, "eval_episodes": 0, "screen_size": 16, "minimap_size": 16}
    least |= {"seed": 0, "num_threads": 0}
    for name, value in least.items():
        if getattr(args, name) < value:
            raise SystemExit(f"--{name.replace('_', '-')} {getattr(args, name)}: it has to be at least {value}")
    batch = args.num_envs * args.num_steps
    if args.total_timesteps < batch and not args.evaluate:
        raise SystemExit(
            f"--total-timesteps {args.total_timesteps} is less than one batch ({args.num_envs} envs x {args.num_steps} "
            f"steps = {batch}): ask for at least {batch}, or lower --num-envs or --num-steps"
        )
    if args.track and not importlib.util.find_spec("wandb"):
        raise SystemExit("--track needs the package wandb: pip install wandb")
    run_folder.check_env_id(args.env_id)


# --- the program -----------------------------------------------------------------------------------------------------
def main(args: Args) -> dict:
    """Returns what result.json holds; of an evaluation alone, its part."""
    check_args(args)
    device = torch.device("cuda" if args.cuda and torch.cuda.is_available() else "cpu")
    torch.set_num_threads(args.num_threads or torch.get_num_threads())
    torch.manual_seed(args.seed)
    torch.backends.cudnn.deterministic = args.torch_deterministic
    allocator.keep_freed_memory()
    with run_folder.StopSignal() as stop:
        return evaluate_checkpoint(args, device, stop) if args.evaluate else train(args, device, stop)


def train(args, device, stop) -> dict:
    default_name = f"{args.env_id.rpartition(':')[2]}__{args.exp_name}__{args.seed}"
    folder, checkpoint_path = run_folder.locate(args.runs_dir, args.run_name, default_name, args.resume)
    if checkpoint_path:
        run_folder.refuse_other_args(checkpoint_path, read_checkpoint(checkpoint_path), asdict(args), FIXED_ARGS)

    # the games, the network, the storage
    envs = make_envs(args, args.num_envs)
    agent = Agent(envs, args.hidden_size).to(device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
    noise_keys = np.array(stream_seeds(args.seed, range(args.num_envs), ACTION_NOISE), np.uint64)
    rollout = Rollout(envs, args.num_steps)
    if checkpoint_path:
        spaces = envs.single_observation_space, envs.single_action_space
        checkpoint = run_folder.load_checkpoint(checkpoint_path, *spaces, resuming=True)
        counters = resume(checkpoint, agent, optimizer)
        resume_games(checkpoint["ranks"][0], envs, rollout)
        print(f"continues {checkpoint_path}: {counters.global_step:,} of {args.total_timesteps:,} steps are done")
    else:
        counters = Counters()
        rollout.start_from(envs.reset(seed=stream_seeds(args.seed, range(args.num_envs)))[0])

    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    config = run_folder.describe(asdict(args), args.exp_name, 1, gpu)
    run = start_run(args, folder, config, counters.global_step if checkpoint_path else None)
    progress = run_folder.ProgressLine(args.total_timesteps)
    print(f"{args.num_envs} games x {args.num_steps} steps an update, on {device}; run folder {folder}", flush=True)
    mean_return, late = None, False
    clock = time.perf_counter()  # from here on: making the engine and the network is not training
    try:
        while counters.global_step < args.total_timesteps and not stop.requested and not late:
            left = 1 - counters.global_step / args.total_timesteps
            learning_rate = optimizer.param_groups[0]["lr"] = args.learning_rate * (left if args.anneal_lr else 1)
            ent_coef = args.ent_coef * (left if args.anneal_ent else 1)

            passes = play(envs, agent, rollout, noise_keys, counters.env_step, device, args.norm_ent)
            losses = learn(agent, optimizer, rollout, passes, args, ent_coef, device)

            counters.update += 1
            counters.env_step += args.num_steps
            counters.global_step += int(rollout.valid.sum())
            now = time.perf_counter()
            counters.training_seconds, clock = counters.training_seconds + now - clock, now

            metrics = losses | {
                "charts/SPS": counters.global_step / counters.training_seconds,
                "charts/learning_rate": learning_rate,
                "charts/ent_coef": ent_coef,
                "charts/invalid_actions": rollout.invalid_actions,
            }
            if rollout.episodes:  # before the first episode has ended there is no point, rather than NaN
                mean_return, mean_length = np.mean(rollout.episodes, 0).tolist()
                metrics |= {"charts/episodic_return": mean_return, "charts/episodic_length": mean_length}
            run.log(counters.global_step, counters.training_seconds, metrics)
            progress.show(counters.global_step, metrics["charts/SPS"], mean_return)
            if counters.update % args.checkpoint_every == 0:
                save_checkpoint(run, args, counters, agent, optimizer, envs, [save_games(envs, rollout)])
            late = args.max_training_minutes and counters.training_seconds > 60 * args.max_training_minutes
        save_checkpoint(run, args, counters, agent, optimizer, envs, [save_games(envs, rollout)])
        progress.close()
        if not stop.requested:
            video_path = folder / "videos" / f"step_{counters.global_step}.mp4"
            evaluation, video_file = evaluate_and_film(agent, args, video_path, device, stop)
            run.result |= {"evaluation": evaluation, "video": video_file}
            for policy, summary in evaluation.items():
                metrics = {EVALUATION_METRICS[policy]: summary["mean"]}
                run.log(counters.global_step, counters.training_seconds, metrics)
        run.result["status"] = "interrupted" if stop.requested else "finished"
    finally:
        progress.close()
        end_run(args, run)
        envs.close()
    if stop.requested:
        print(f"stopped by {stop.requested}; the same command with --resume {run.result['checkpoint']} continues")
    print(f"checkpoint   {run.result['checkpoint']}\nTensorBoard  tensorboard --logdir {folder}")
    return run.result


def evaluate_checkpoint(args, device, stop) -> dict:
    # the games and the network are the checkpoint's; seed, number of episodes, and a video or not are what is asked now
    saved = read_checkpoint(args.evaluate)["args"]
    args = replace(args, **{name: saved[name] for name in CHECKPOINT_ARGS})
    envs = make_envs(args, 1)
    spaces = envs.single_observation_space, envs.single_action_space
    checkpoint = run_folder.load_checkpoint(args.evaluate, *spaces, resuming=False)
    agent = Agent(envs, args.hidden_size).to(device)
    agent.load_state_dict(checkpoint["agent"])
    envs.close()
    global_step = checkpoint["global_step"]
    video_path = Path(args.evaluate).parent.parent / "videos" / f"step_{global_step}.mp4"
    evaluation, video_file = evaluate_and_film(agent, args, video_path, device, stop)
    return {"evaluation": evaluation, "video": video_file, "checkpoint": args.evaluate, "env_steps": global_step}


if __name__ == "__main__":
    main(tyro.cli(Args))
