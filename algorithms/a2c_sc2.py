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
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import tyro
from gymnasium.vector import AutoresetMode

from sc2_envs import runs
from sc2_envs.actions import SPATIAL_ARGUMENTS
from sc2_envs.engine import ENGINE_VERSION
from sc2_envs.features import resolve_layers


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
def layer_init(layer, std=2**0.5, bias_const=0.0):
    nn.init.orthogonal_(layer.weight, std)
    if layer.bias is not None:
        nn.init.constant_(layer.bias, bias_const)
    return layer


class Planes(nn.Module):
    """Feature layers (N, C, H, W) uint8 -> float planes, 0 where there is nothing: amounts become 0 to 1, a few
    categories one plane each, many categories (unit types) a few learnt planes."""

    def __init__(self, layers, max_one_hot=8, embedding_size=3):
        super().__init__()
        self.layers = layers
        many = [layer.name for layer in layers if layer.categorical and layer.scale > max_one_hot]
        self.embeddings = nn.ModuleDict({name: nn.Embedding(256, embedding_size, padding_idx=0) for name in many})
        self.register_buffer("categories", torch.arange(1, max_one_hot, dtype=torch.uint8), persistent=False)

    def forward(self, x, dtype):
        planes = []
        for values, layer in zip(x.unbind(1), self.layers, strict=True):
            if layer.name in self.embeddings:
                planes.append(self.embeddings[layer.name](values.int()))
            elif layer.categorical:
                planes.append((values[..., None] == self.categories[: layer.scale - 1]).to(dtype))
            else:
                planes.append(values[..., None].to(dtype) / (min(layer.scale, 256) - 1))
        return torch.cat(planes, -1).permute(0, 3, 1, 2)  # NCHW in channels-last memory: no copy

    def channels(self):
        return self(torch.zeros(1, len(self.layers), 1, 1, dtype=torch.uint8), torch.float32).shape[1]


class Agent(nn.Module):
    """Two convolutions over the screen, two over the minimap, a dense layer; a head for the value, for the function and
    for each argument, which has an output of its own for every function that takes it. Spatial heads are 1x1
    convolutions: a pixel's logit comes from what is seen around that pixel, and a little more where a unit is seen."""

    def __init__(self, observation_space, action_set, hidden_size=128, pooled=4):
        super().__init__()
        self.arguments, self.sizes, self.pooled = action_set.arguments, action_set.nvec[1:].tolist(), pooled
        vector_size = observation_space["player"].shape[0] + observation_space["available_actions"].shape[0]
        self.planes, self.convolutions, self.broadcast = nn.ModuleDict(), nn.ModuleDict(), nn.ModuleDict()
        self.owner = {}  # index of the layer that says whose unit a pixel shows
        for name in ("screen", "minimap"):
            layers = resolve_layers("default", name)
            self.owner[name] = [layer.name for layer in layers].index("player_relative")
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

    def forward(self, observation):
        """Logits and values (N,). Logits are a list: of the functions (N, F), -inf for illegal ones, then for each
        argument (N, functions that take it, size)."""
        dtype = self.value.weight.dtype
        available = observation["available_actions"].bool()
        vector = torch.cat([observation["player"].to(dtype), available.to(dtype)], 1)
        seen, state = {}, [vector]
        for name in ("screen", "minimap"):
            first, second = self.convolutions[name]
            x = F.relu(first(self.planes[name](observation[f"feature_{name}"], dtype)))
            # a bias a channel: the same as concatenating the vector's entries as constant planes, for free
            seen[name] = F.relu(second(x) + self.broadcast[name](vector)[:, :, None, None])
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
def sample_index(logits, uniform):
    """The index whose slice of the cumulative distribution holds `uniform`, (N,); one of logit -inf has no slice."""
    cumulative = logits.softmax(-1).double().cumsum(-1)
    return (cumulative <= uniform[:, None] * cumulative[:, -1:]).sum(-1)


def given_function(logits, function, argument_mask):
    """Logits of each component of the action, (N, size), for these functions (N,).

    `argument_mask[f, a]` says whether function f takes argument a. Where it does not, the logits mean nothing.
    """
    rows = (argument_mask.cumsum(0) - 1).clamp(min=0)[function]  # (N, A): place of f among those that take a
    games = torch.arange(len(function), device=function.device)
    return [logits[0], *(component[games, row] for component, row in zip(logits[1:], rows.unbind(1), strict=True))]


def sample_actions(logits, uniform, argument_mask):
    """Action (N, 1 + A) from the agent's logits and a uniform number a component, (N, 1 + A); None: the likeliest."""

    def choose(component, i):
        return component.argmax(-1) if uniform is None else sample_index(component.detach(), uniform[:, i])

    function = choose(logits[0], 0)
    arguments = given_function(logits, function, argument_mask)[1:]
    return torch.stack([function, *(choose(component, i) for i, component in enumerate(arguments, 1))], 1)


def log_prob_and_entropy(logits, action, argument_mask, norm_ent=False):
    """Log-probability of the action and entropy of the policy, (N,) each; both count only what the function uses.

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
def n_step_returns(reward, terminated, truncated, next_value, gamma, gae_lambda=1.0):
    """Discounted returns, all arguments (T, B). With gae_lambda < 1 those of TD(lambda): minus the value, they are GAE.

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


# --- play and learn --------------------------------------------------------------------------------------------------
class Rollout:
    """A batch of T steps x B games, allocated once; the games write their observations straight into it."""

    def __init__(self, envs, num_steps, env_indices):
        shape = (num_steps, envs.num_envs)
        self.observation = {
            name: np.zeros((num_steps + 1, envs.num_envs, *space.shape), space.dtype)
            for name, space in envs.single_observation_space.items()
        }
        self.action = np.zeros((*shape, len(envs.action_set.nvec)), np.int64)
        self.reward = np.zeros(shape, np.float32)
        self.terminated = np.zeros(shape, bool)
        self.truncated = np.zeros(shape, bool)
        self.valid = np.zeros(shape, bool)  # False where a game only reset itself: nothing to learn, not a step
        self.env_index = np.tile(np.asarray(env_indices, np.int64), (num_steps, 1))
        self.policy_version = np.zeros(shape, np.int64)
        self.ended = np.zeros(envs.num_envs, bool)  # games whose next step is such a reset
        self.episodes = []  # (return, length) of those that ended in this rollout
        self.invalid_actions = 0

    def observe(self, t, device):
        return {name: torch.from_numpy(array[t]).to(device) for name, array in self.observation.items()}


def play(envs, agent, rollout, noise_keys, env_step, policy_version, device, norm_ent=False):
    """Fill the rollout. Returns (log-probability, entropy, value) of every step, (B,) each, with their graphs: the
    update goes backward through the very pass that chose the action, so the network runs once a step and not twice."""
    argument_mask = torch.tensor(envs.action_set.argument_mask, device=device)
    rollout.episodes, rollout.invalid_actions = [], 0
    for array in rollout.observation.values():
        array[0] = array[-1]
    scores = []
    for t in range(len(rollout.reward)):
        check_rows(rollout, t, env_step)
        logits, value = agent(rollout.observe(t, device))
        noise = torch.from_numpy(uniforms(noise_keys, env_step + t, len(logits))).to(device)
        action = sample_actions(logits, noise, argument_mask)
        scores.append((*log_prob_and_entropy(logits, action, argument_mask, norm_ent), value))

        rollout.action[t] = action.cpu()
        out = {name: array[t + 1] for name, array in rollout.observation.items()}
        _, reward, terminated, truncated, info = envs.step(rollout.action[t], out=out)
        rollout.reward[t], rollout.terminated[t], rollout.truncated[t] = reward, terminated, truncated
        rollout.valid[t], rollout.policy_version[t] = ~rollout.ended, policy_version
        rollout.ended = terminated | truncated
        rollout.invalid_actions += int((info["invalid_action"] & rollout.valid[t]).sum())
        ends = np.flatnonzero(rollout.ended)
        rollout.episodes += zip(
            info["episode_return"][ends].tolist(), info["episode_length"][ends].tolist(), strict=True
        )
    check_rows(rollout, len(rollout.reward), env_step)
    return scores


def check_rows(rollout, t, env_step):
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
            raise FloatingPointError(f"env {rollout.env_index[0, i]} {problem} at its step {env_step + t}{after}")


def accumulate_gradient(scores, returns, advantage, valid, ent_coef, vf_coef, value_loss=F.mse_loss, unit=1.0):
    """Add the gradient of the loss, a mean over the valid steps, to the parameters; values count in `unit`s of reward.

    Returns policy loss, value loss (per squared reward) and entropy, (3,). One step's games at a time: small pieces
    stay in the cache, and each frees its graph.
    """
    sums = 0.0
    for t, (log_prob, entropy, value) in enumerate(scores):
        weight = valid[t].to(value) / valid.sum().clamp(min=1)
        pg_loss = -(advantage[t] * log_prob * weight).sum()
        v_loss = (value_loss(value / unit, returns[t] / unit, reduction="none") * weight).sum()
        entropy_bonus = (entropy * weight).sum()
        (pg_loss + vf_coef * v_loss - ent_coef * entropy_bonus).backward()
        sums = sums + torch.stack([pg_loss, v_loss * unit**2, entropy_bonus]).detach()
    return sums


# --- games, evaluation and video -------------------------------------------------------------------------------------
def env_keywords(args):
    return {"screen_size": args.screen_size, "minimap_size": args.minimap_size, "step_mul": args.step_mul}


def make_envs(args, num_envs):
    envs = gym.make_vec(args.env_id, num_envs=num_envs, **env_keywords(args))
    # a game that has ended resets itself in its next step, so an end's observation is the next row of the rollout
    assert envs.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP, envs.metadata
    return envs


@torch.no_grad()
def evaluate(agent, args, episodes, greedy, device, go_on):
    """Returns of the episodes of these numbers, a game each, so that short ones do not count more often.

    Their seeds are a branch that training never uses. `go_on(running)` says whether to play on.
    """
    envs = make_envs(args, max(1, len(episodes)))
    seeds = stream_seeds(args.seed, episodes or [0], EVALUATION)
    noise_keys = np.array(stream_seeds(args.seed, episodes or [0], EVALUATION_NOISE), np.uint64)
    argument_mask = torch.tensor(envs.action_set.argument_mask, device=device)
    observation, _ = envs.reset(seed=seeds)
    returns, running, step = np.zeros(envs.num_envs), np.full(envs.num_envs, bool(episodes)), 0
    while go_on(bool(running.any())):
        logits, _ = agent({name: torch.from_numpy(array).to(device) for name, array in observation.items()})
        noise = None if greedy else torch.from_numpy(uniforms(noise_keys, step, len(logits))).to(device)
        action = sample_actions(logits, noise, argument_mask).cpu().numpy()
        observation, reward, terminated, truncated, _ = envs.step(action)
        returns += reward * running
        running &= ~(terminated | truncated)
        step += 1
    envs.close()
    return returns[: len(episodes)].tolist()


@torch.no_grad()
def film(agent, args, path, device):
    """An episode of the sampled policy as a video. Returns the path of the file."""
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
    return str(runs.write_video(frames, path, fps=4 * 22.4 / args.step_mul))  # four times as fast as the game


def check_args(args):
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
    runs.check_env_id(args.env_id)


FIXED_ARGS = ("env_id", "seed", "num_envs", "num_steps", "screen_size", "minimap_size", "step_mul", "hidden_size")
OF_THE_CHECKPOINT = tuple(name for name in FIXED_ARGS if name != "seed")


# --- the program -----------------------------------------------------------------------------------------------------
def main(args: Args) -> dict:
    check_args(args)
    device = torch.device("cuda" if args.cuda and torch.cuda.is_available() else "cpu")
    torch.set_num_threads(args.num_threads or torch.get_num_threads())
    torch.manual_seed(args.seed)
    torch.backends.cudnn.deterministic = args.torch_deterministic
    with runs.StopSignal() as stop:
        return evaluate_checkpoint(args, device, stop) if args.evaluate else train(args, device, stop)


def train(args, device, stop):
    default_name = f"{args.env_id.rpartition(':')[2]}__{args.exp_name}__{args.seed}"
    folder, checkpoint_path = runs.locate(args.runs_dir, args.run_name, default_name, args.resume)
    if checkpoint_path:
        runs.refuse_other_args(checkpoint_path, runs.read_checkpoint(checkpoint_path), asdict(args), FIXED_ARGS)

    # the games, the network, the storage
    envs = make_envs(args, args.num_envs)
    noise_keys = np.array(stream_seeds(args.seed, range(args.num_envs), ACTION_NOISE), np.uint64)
    observation, _ = envs.reset(seed=stream_seeds(args.seed, range(args.num_envs)))
    agent = Agent(envs.single_observation_space, envs.action_set, args.hidden_size).to(device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
    rollout = Rollout(envs, args.num_steps, range(args.num_envs))
    update = env_step = global_step = training_seconds = 0
    mean_return = None

    if checkpoint_path:
        checkpoint = runs.load_checkpoint(
            checkpoint_path, envs.single_observation_space, envs.single_action_space, True
        )
        agent.load_state_dict(checkpoint["agent"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        update, env_step = checkpoint["update"], checkpoint["env_step"]
        global_step, training_seconds = checkpoint["global_step"], checkpoint["training_seconds"]
        (state,) = checkpoint["ranks"]
        envs.set_state(state["envs"].numpy().tobytes())
        observation = {name: tensor.numpy() for name, tensor in state["observation"].items()}
        rollout.ended[:] = state["ended"].numpy()
        torch.set_rng_state(state["torch_random_state"])
        print(f"continues {checkpoint_path}: {global_step:,} of {args.total_timesteps:,} steps are done")
    for name, array in rollout.observation.items():
        array[-1] = observation[name]

    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    config = runs.describe(asdict(args), args.exp_name, 1, gpu)
    if args.track:
        import wandb

        folder.mkdir(parents=True, exist_ok=True)
        name = {"project": args.wandb_project_name, "entity": args.wandb_entity, "name": folder.name}
        wandb.init(**name, config=asdict(args), sync_tensorboard=True, dir=str(folder))
    run = runs.Run(folder, config, global_step if checkpoint_path else None)
    print(f"{args.num_envs} games x {args.num_steps} steps an update, on {device}; run folder {folder}", flush=True)
    progress = runs.ProgressLine(args.total_timesteps)

    def save():
        state = {
            "envs": torch.frombuffer(bytearray(envs.get_state()), dtype=torch.uint8),
            "observation": {name: torch.tensor(array[-1]) for name, array in rollout.observation.items()},
            "ended": torch.tensor(rollout.ended),
            "torch_random_state": torch.get_rng_state(),  # the action noise needs no state: it is counted by env_step
        }
        checkpoint = {
            "agent": agent.state_dict(),
            "optimizer": optimizer.state_dict(),
            "update": update,
            "env_step": env_step,
            "global_step": global_step,
            "training_seconds": training_seconds,
            "args": asdict(args),
            "observation_space": str(envs.single_observation_space),
            "action_space": str(envs.single_action_space),
            "engine_version": ENGINE_VERSION,
            "ranks": [state],
        }
        run.result |= {"env_steps": global_step, "training_seconds": training_seconds}
        run.result["checkpoint"] = str(run.save_checkpoint(checkpoint, args.keep_checkpoints))

    clock = time.perf_counter()  # from here on: making the engine and the network is not training
    try:
        while global_step < args.total_timesteps and not stop.requested:
            left = 1 - global_step / args.total_timesteps
            learning_rate = optimizer.param_groups[0]["lr"] = args.learning_rate * (left if args.anneal_lr else 1)
            ent_coef = args.ent_coef * (left if args.anneal_ent else 1)

            scores = play(envs, agent, rollout, noise_keys, env_step, update, device, args.norm_ent)
            with torch.no_grad():
                last_value = agent(rollout.observe(-1, device))[1]
                value = torch.stack([value for _, _, value in scores])
                next_value = torch.cat([value[1:], last_value[None]])
                arrays = (rollout.reward, rollout.terminated, rollout.truncated, rollout.valid)
                reward, terminated, truncated, valid = (torch.from_numpy(array).to(device) for array in arrays)
                returns = n_step_returns(reward, terminated, truncated, next_value, args.gamma, args.gae_lambda)
                advantage, used = returns - value, (returns - value)[valid]
                if args.norm_adv and len(used) > 1:
                    advantage = (advantage - used.mean()) / (used.std(correction=0) + 1e-8)
                unit = max(1.0, (used**2).mean().sqrt().item()) if args.norm_value_loss and len(used) else 1.0

            optimizer.zero_grad()
            losses = accumulate_gradient(scores, returns, advantage, valid, ent_coef, args.vf_coef, unit=unit)
            grad_norm = nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
            policy_loss, value_loss, entropy, grad_norm = [*losses.tolist(), grad_norm.item()]
            if not np.isfinite([policy_loss, value_loss, entropy, grad_norm]).all():
                raise FloatingPointError(
                    f"update {update} has policy loss {policy_loss}, value loss {value_loss}, entropy {entropy} and "
                    f"gradient norm {grad_norm}: it was not made. A lower --learning-rate may help"
                )
            if len(used):  # with nothing to learn from, momentum alone would move the weights
                optimizer.step()
            update += 1
            env_step += args.num_steps
            global_step += int(rollout.valid.sum())
            now = time.perf_counter()
            training_seconds, clock = training_seconds + now - clock, now

            metrics = {
                "charts/SPS": global_step / training_seconds,
                "charts/learning_rate": learning_rate,
                "charts/ent_coef": ent_coef,
                "charts/invalid_actions": rollout.invalid_actions,
                "losses/policy_loss": policy_loss,
                "losses/value_loss": value_loss,
                "losses/entropy": entropy,
                "losses/grad_norm": grad_norm,
            }
            if rollout.episodes:  # before the first episode has ended there is no point, rather than NaN
                mean_return, mean_length = np.mean(rollout.episodes, 0).tolist()
                metrics |= {"charts/episodic_return": mean_return, "charts/episodic_length": mean_length}
            run.log(global_step, training_seconds, metrics)
            progress.show(global_step, metrics["charts/SPS"], mean_return)
            if update % args.checkpoint_every == 0:
                save()
            if args.max_training_minutes and training_seconds > 60 * args.max_training_minutes:
                break
        save()
        progress.close()
        if not stop.requested:
            evaluation, run.result["video"] = report(agent, args, folder, global_step, device, stop)
            run.result["evaluation"] = evaluation
            for key, name in (("sampled", "eval/episodic_return"), ("greedy", "eval/episodic_return_greedy")):
                if key in evaluation:
                    run.log(global_step, training_seconds, {name: evaluation[key]["mean"]})
        run.result["status"] = "interrupted" if stop.requested else "finished"
    finally:
        progress.close()
        run.close()
        envs.close()
    if stop.requested:
        print(f"stopped by {stop.requested}; the same command with --resume {run.result['checkpoint']} continues")
    print(f"checkpoint   {run.result['checkpoint']}\nTensorBoard  tensorboard --logdir {folder}")
    return run.result


def report(agent, args, folder, global_step, device, stop):
    """Evaluate and film the agent. Returns the evaluation and the video's path; a stop leaves out what is to come."""
    evaluation, video = {}, None
    for key in ("sampled", "greedy") if args.eval_episodes else ():
        episodes = range(args.eval_episodes)
        returns = evaluate(agent, args, episodes, key == "greedy", device, lambda on: on and not stop.requested)
        if stop.requested:
            return evaluation, video
        evaluation[key] = runs.summary(returns)
        print(f"{key:7} policy: {runs.summary_line(evaluation[key])}")
    if args.capture_video:
        try:
            video = film(agent, args, folder / "videos" / f"step_{global_step}.mp4", device)
            print(f"video        {video}")
        except (OSError, RuntimeError, ValueError) as error:  # a full disk does not undo a training
            print(f"no video: {error}", file=sys.stderr)
    return evaluation, video


def evaluate_checkpoint(args, device, stop):
    saved = runs.read_checkpoint(args.evaluate)["args"]
    # the games and the network are the checkpoint's; seed, number of episodes, and a video or not are what is asked now
    args = replace(args, **{name: saved[name] for name in OF_THE_CHECKPOINT})
    envs = make_envs(args, 1)
    checkpoint = runs.load_checkpoint(args.evaluate, envs.single_observation_space, envs.single_action_space, False)
    agent = Agent(envs.single_observation_space, envs.action_set, args.hidden_size).to(device)
    agent.load_state_dict(checkpoint["agent"])
    envs.close()
    folder, global_step = Path(args.evaluate).parent.parent, checkpoint["global_step"]
    evaluation, video = report(agent, args, folder, global_step, device, stop)
    return {"evaluation": evaluation, "video": video, "checkpoint": args.evaluate, "env_steps": global_step}


if __name__ == "__main__":
    main(tyro.cli(Args))
