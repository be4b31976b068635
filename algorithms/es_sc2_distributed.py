"""Evolution strategies on StarCraft II mini-games, over any number of processes.

    python algorithms/es_sc2_distributed.py --env-id SC2MoveToBeacon-v0
    torchrun --standalone --nproc_per_node=2 algorithms/es_sc2_distributed.py --env-id SC2MoveToBeacon-v0
    python algorithms/es_sc2_distributed.py --evaluate runs/<run>/checkpoints/<checkpoint>.pt

A generation is a population of policies, its members: the same network with weights centre + sigma x noise, each noise
used a second time with its sign turned (a pair). Every member plays an episode, and the centre moves along the noises,
each weighed by how well its member did (Salimans et al. 2017, Evolution Strategies as a Scalable Alternative to
Reinforcement Learning). No gradient of the network is needed, and what a policy's episodes look like inside does not
matter.

Noise is a function of the seed, the generation and the pair's number: a rank, one process of the job, rebuilds it and
sends returns alone. Pairs are played in blocks, and a rank that is free takes the next one, so that slow ranks do less.
The sum over all blocks is made of whole numbers, in which order does not matter: any number of ranks takes bit for bit
the same steps, and a run may continue on another number.
Docs: docs/algorithms/es.md
"""

import contextlib
import hashlib
import importlib.util
import io
import json
import os
import sys
import threading
import time
from concurrent.futures import Future
from dataclasses import asdict, dataclass, fields, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import gymnasium as gym
import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
import tyro
from gymnasium.vector import AutoresetMode
from torch import Tensor
from torch.func import functional_call, vmap
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from sc2_envs import SC2VectorEnv, allocator, rendezvous, run_folder, video
from sc2_envs.actions import SPATIAL_ARGUMENTS
from sc2_envs.engine import ENGINE_VERSION, compile_engine
from sc2_envs.features import FEATURE_UNIT_FIELDS, Layer


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
    num_threads: int = 1
    """CPU threads of PyTorch in each rank; with another number sums may come out differently in the last digit"""
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
    checkpoint_every: int = 10
    """updates between two checkpoints"""
    keep_checkpoints: int = 3
    """how many checkpoints stay on disk"""
    eval_episodes: int = 100
    """episodes played after training, with seeds never trained on; 0: none"""
    capture_video: bool = True
    """if toggled, an episode of the trained agent is filmed"""

    # Where the ranks are; found in the variables of torchrun, AWS Batch or SLURM where --world-size is not given
    world_size: int = 0
    """number of ranks"""
    rank: int = 0
    """number of this rank"""
    local_rank: int = 0
    """number of this rank on its machine: it chooses the GPU"""
    master_addr: str = ""
    """address of rank 0, or file:// and the full path of a file that all ranks see, a new one for each job"""
    master_port: int = 0
    """port of rank 0; 0: 29500, or under SLURM one that belongs to the job; torchrun brings its own"""
    timeout_minutes: float = 10.0
    """how long ranks wait for each other before they give up: longer than a block takes to play"""
    join_minutes: float = 10.0
    """the same at the start, where a machine may first have to compile the engine"""
    checksum_every: int = 1
    """updates between two checks that all ranks have the same weights"""

    # Algorithm specific arguments
    env_id: str = "SC2MoveToBeacon-v0"
    """the environment"""
    screen_size: int = 32
    """side of the screen's layers in pixels: how finely a point can be chosen"""
    minimap_size: int = 16
    """side of the minimap's layers in pixels"""
    step_mul: int = 8
    """game loops of one env step"""
    total_timesteps: int = 6_000_000
    """env steps of all members' episodes together"""
    max_training_minutes: float = 0.0
    """end the training after this time; 0: no limit"""
    evaluate_every: int = 25
    """updates between two evaluations of the centre, with the clock stopped; 0: none before the end"""
    network: Literal["units", "pixels"] = "units"
    """what the policy sees: a list of the units on the screen, by a small network, or the feature layers, by the
    convolutions of the other algorithms"""
    max_units: int = 48
    """length of that list; units beyond it are not seen"""
    hidden_size: int = 0
    """width of the network's layers, of the dense one with --network pixels; 0: 16, and 128 with pixels"""
    population: int = 256
    """members of a generation, both of each pair: an even number"""
    block_pairs: int = 64
    """pairs that a rank plays side by side: with more, each call of the network and of the games does more"""
    episodes: int = 1
    """episodes that each member plays; its return is their mean"""
    sigma: float = 0.03
    """deviation of the noise on the weights"""
    sigma_decay: float = 0.98
    """factor of sigma from one generation to the next"""
    sigma_min: float = 0.005
    """sigma does not fall below this"""
    shaping: Literal["centred_ranks", "standardised", "none"] = "centred_ranks"
    """what the returns of a generation become: ranks from -0.5 to 0.5, deviations from the mean in units of the
    standard deviation, or themselves"""
    history: int = 1
    """generations whose members an update learns from; members of earlier ones are weighed by importance"""
    wait_update: bool = True
    """if toggled, a generation begins when the centre has moved; else while the former is still played to its end and
    learnt from, around the centre before that: its gradient is one update old"""
    max_reissues: int = 3
    """times that a pair is played again whose game was lost or whose return is no number, before it is left out"""
    action_noise: float = 0.0
    """temperature at which actions are drawn; 0: always the likeliest"""
    reference_steps: int = 64
    """steps of random play whose mean and deviation the list of units and the player's numbers are normalised by;
    0: not at all"""
    optimizer: Literal["adam", "adamw", "rmsprop", "adagrad", "sgd"] = "adam"
    """the optimizer that moves the centre"""
    optimizer_eps: float = 1e-8
    """the optimizer's epsilon, which SGD has not"""
    momentum: float = 0.0
    """the momentum of SGD and RMSprop"""
    weight_decay: float = 0.0
    """the optimizer's weight decay"""
    learning_rate: float = 1e-2
    """the learning rate of the optimizer"""
    anneal_lr: bool = True
    """if toggled, the learning rate falls linearly to 0 at --total-timesteps"""


# --- the ranks: which one this process is, how they meet, what they do together --------------------------------------
@dataclass
class Ranks:
    """The processes of the job, its ranks, and this one's place among them."""

    rank: int = 0  # in the whole job: it decides seeds, and who prints and writes files
    local_rank: int = 0  # on its machine: it chooses the GPU, nothing else
    size: int = 1
    address: str = "127.0.0.1"  # where rank 0 is, or file:// and a file that all ranks see
    port: int = 29500
    launcher: str = "none"

    def __post_init__(self):
        if not 0 <= self.rank < self.size:
            raise SystemExit(f"rank {self.rank} of {self.size}: ranks are numbered from 0 to {self.size - 1}")
        if not 0 < self.port < 2**16:
            raise SystemExit(f"port {self.port} of rank 0: it has to be from 1 to {2**16 - 1}")
        self.first, self.backend = self.rank == 0, "none"

    def say(self, text: str) -> None:
        if self.first:
            print(text, flush=True)

    def join(self, device: torch.device, timeout_minutes: float, join_minutes: float = 10.0) -> None:
        """Meet the other ranks. NCCL carries GPUs' tensors where each rank has a GPU of its own, Gloo all else."""
        if self.size == 1:  # it needs nobody, and no PyTorch that could talk
            return
        self.patience = min(5.0, 15 * timeout_minutes)  # seconds, to find out who is lost
        gpu = str(torch.cuda.get_device_properties(device).uuid) if device.type == "cuda" else f"none, rank {self.rank}"
        self.meeting = rendezvous.Meeting(self.rank, self.size, self.address, self.port, self.launcher)
        gpus = len(set(self.meeting.hold(gpu, join_minutes)))
        self.backend = "gloo"
        if device.type == "cuda" and dist.is_nccl_available():
            if gpus == self.size:
                self.backend = "cpu:gloo,cuda:nccl"
            else:
                self.say(f"{self.size} ranks share {gpus} GPU(s): Gloo carries their tensors instead of NCCL")
        place = {"store": self.meeting.store, "rank": self.rank, "world_size": self.size}
        dist.init_process_group(self.backend, **place, timeout=timedelta(minutes=timeout_minutes))

    def together(self, collective, tensor: Tensor, *arguments) -> Tensor:
        """A collective of torch.distributed on a tensor, in place; nothing for a rank that is alone."""
        if self.size == 1:
            return tensor
        here = tensor.cpu() if self.backend == "gloo" else tensor
        try:
            collective(here, *arguments)
        except RuntimeError as error:
            lost = self.meeting.find_lost(self.hang_up, self.patience)
            raise ConnectionError(f"rank {self.rank} has lost {lost}: {error}") from None
        return tensor if here is tensor else tensor.copy_(here)

    def hang_up(self) -> None:
        # NCCL would wait for ranks that may have died; the end of the process does it too
        if self.backend == "gloo" and dist.is_initialized():
            dist.destroy_process_group()

    def leave(self) -> None:
        self.hang_up()
        if self.size > 1:
            self.meeting.end()

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum over the ranks, in place."""
        return tensor if self.size == 1 else self.together(dist.all_reduce, tensor)

    def any(self, *flags: bool) -> list[bool]:
        """Is each flag set on any rank?"""
        return [count > 0 for count in self.sum(torch.tensor(flags, dtype=torch.float64)).tolist()]

    def broadcast(self, tensor: Tensor) -> Tensor:
        """Rank 0's values on every rank, in place."""
        return tensor if self.size == 1 else self.together(dist.broadcast, tensor, 0)

    def gather(self, data: bytes) -> list[bytes]:
        """The bytes of all ranks, in their order, on rank 0; an empty list elsewhere."""
        if self.size == 1:
            return [data]
        sizes = torch.zeros(self.size, dtype=torch.int64)
        sizes[self.rank] = len(data)
        sizes = self.sum(sizes).tolist()
        padded = torch.frombuffer(bytearray(data.ljust(max(*sizes, 1), b"\0")), dtype=torch.uint8)
        parts = [torch.empty_like(padded) for _ in sizes] if self.first else None
        self.together(dist.gather, padded, parts)
        return [part[:size].numpy().tobytes() for part, size in zip(parts or (), sizes, strict=False)]

    def from_first(self, function, *arguments) -> bytes:
        """The bytes that a function returns on rank 0, on every rank. An error there ends all; rank 0 says which."""
        data, error = b"", None
        if self.first:
            try:
                data = function(*arguments)
            except (Exception, SystemExit) as caught:
                error = caught
        if any(self.any(error is not None)):
            raise error or SystemExit(1)
        size = int(self.broadcast(torch.tensor([len(data)])))
        sent = torch.frombuffer(bytearray(data.ljust(max(size, 1))), dtype=torch.uint8)
        return self.broadcast(sent)[:size].numpy().tobytes()


def find_ranks(args, variables=os.environ) -> Ranks:
    """Which rank this process is: by its flags, torchrun, AWS Batch, or a SLURM step; else it is alone."""
    number = partial(rendezvous.number, variables)
    port = args.master_port or 29500
    if args.world_size:
        return Ranks(args.rank, args.local_rank, args.world_size, args.master_addr or "127.0.0.1", port, "flags")
    if args.rank or args.local_rank:
        raise SystemExit(f"--rank {args.rank} --local-rank {args.local_rank}: --world-size is missing")
    if "RANK" in variables:
        rank, local_rank, size = (number(name) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"))
        if not variables.get("MASTER_ADDR"):
            raise SystemExit("the variable MASTER_ADDR of the launcher is missing: it has to be rank 0's address")
        # with torchrun's shared store the ranks of a job that starts again may look for rank 0 on the wrong node
        shares = variables.get("TORCH_DISABLE_SHARE_RDZV_TCP_STORE") != "1"
        if shares and variables.get("GROUP_WORLD_SIZE", "1") != "1" and number("TORCHELASTIC_MAX_RESTARTS"):
            raise SystemExit("torchrun --max-restarts on several nodes needs TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1")
        return Ranks(rank, local_rank, size, variables["MASTER_ADDR"], number("MASTER_PORT"), "torchrun")
    if "AWS_BATCH_JOB_NUM_NODES" in variables:
        names = ("NUM_NODES", "NODE_INDEX", "MAIN_NODE_INDEX")
        nodes, node, main_node = (number(f"AWS_BATCH_JOB_{name}") for name in names)
        if not max(node, main_node) < nodes:
            raise SystemExit(f"AWS_BATCH_JOB_NODE_INDEX {node}, _MAIN_NODE_INDEX {main_node}: there are {nodes} nodes")
        # the main node, which is rank 0 here, is not told its own address
        address = args.master_addr or variables.get("AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS")
        if not address and node != main_node:
            raise SystemExit("the variable AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS of AWS Batch is missing")
        return Ranks((node - main_node) % nodes, 0, nodes, address or "127.0.0.1", port, "AWS Batch")
    # in a batch script outside of srun SLURM_NTASKS is set too, but there are no peers: only a step has them
    if "SLURM_STEP_ID" in variables and "SLURM_STEP_NUM_TASKS" in variables and number("SLURM_STEP_NUM_TASKS") > 1:
        rank, local_rank, size = (number(f"SLURM_{name}") for name in ("PROCID", "LOCALID", "STEP_NUM_TASKS"))
        port = args.master_port or 15000 + number("SLURM_JOB_ID") % 20000
        return Ranks(rank, local_rank, size, args.master_addr or rendezvous.first_slurm_host(variables), port, "SLURM")
    return Ranks()


def to_bytes(content) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def from_bytes(data: bytes):
    """The content; only tensors and plain values are accepted, as of a file."""
    return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)


def check_equal_weights(model: nn.Module, ranks: Ranks) -> int:
    """Compare a hash of all weights over the ranks. Returns it, a number of 48 bits."""
    digest = hashlib.blake2b(digest_size=6)
    for tensor in model.state_dict().values():
        digest.update(tensor.cpu().contiguous().numpy().tobytes())
    ours = int.from_bytes(digest.digest(), "big")
    theirs = int(ranks.broadcast(torch.tensor([ours])))
    if any(ranks.any(ours != theirs)):
        here = "other than" if ours != theirs else "as"
        raise RuntimeError(f"the ranks' weights have come apart: rank {ranks.rank} has weights {here} rank 0's")
    return ours


# --- random streams: every game has its own, keyed by (seed, index of the env in the whole job) ---------------------
TRAINING, ACTION_NOISE, EVALUATION, EVALUATION_NOISE = (), (1,), (2,), (3,)
GAMES, PERTURBATION, REFERENCE, REFERENCE_NOISE = (4,), (5,), (6,), (7,)


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


# --- the networks ----------------------------------------------------------------------------------------------------
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


# columns of feature_units that say what a unit is and does; where it is, and whose, is told apart
UNIT_COLUMNS = ("health", "health_ratio", "radius", "is_selected", "weapon_cooldown", "order_length", "build_progress")
UNIT_COLUMNS += ("mineral_contents", "vespene_contents", "assigned_harvesters")
ALLIANCES = (1, 3, 4)  # own, neutral, enemy


class UnitsAgent(nn.Module):
    """A small network that sees a list of units: a layer for each unit, their mean and maximum, a layer for the whole;
    then a point of the screen is a unit, the best in the light of the whole, and a shift from it. The screen's centre
    is in the list, so that there is always a point to choose."""

    def __init__(self, envs: SC2VectorEnv, hidden_size: int = 32):
        super().__init__()
        action_set, space = envs.action_set, envs.single_observation_space
        self.arguments, self.sizes = action_set.arguments, action_set.nvec[1:].tolist()
        self.functions = action_set.argument_mask.sum(0).tolist()  # how many take each argument
        self.places = {"minimap": space["feature_minimap"].shape[:0:-1]}  # (width, height)
        self.screen = space["feature_screen"].shape[:0:-1]
        self.columns = [FEATURE_UNIT_FIELDS.index(name) for name in UNIT_COLUMNS]
        self.alliance, self.x, self.y = (FEATURE_UNIT_FIELDS.index(name) for name in ("alliance", "x", "y"))
        unit_size = 2 + len(ALLIANCES) + len(UNIT_COLUMNS)
        vector_size = space["player"].shape[0] + space["available_actions"].shape[0]
        self.register_buffer("alliances", torch.tensor(ALLIANCES), persistent=False)
        for name, size in (("unit", unit_size), ("vector", vector_size)):
            self.register_buffer(f"{name}_mean", torch.zeros(size))
            self.register_buffer(f"{name}_deviation", torch.ones(size))
        self.unit = layer_init(nn.Linear(unit_size, hidden_size))
        self.state = layer_init(nn.Linear(2 * hidden_size + vector_size, hidden_size))
        self.pointed = layer_init(nn.Linear(hidden_size, hidden_size))
        self.asked = layer_init(nn.Linear(hidden_size, hidden_size, bias=False))
        self.function = layer_init(nn.Linear(hidden_size, len(action_set.functions)), std=0.1)
        self.argument = nn.ModuleDict()
        for name, count, size in zip(self.arguments, self.functions, self.sizes, strict=True):
            outputs = count * (3 if name in SPATIAL_ARGUMENTS else size)  # a point: its score and shift by x and y
            self.argument[name] = layer_init(nn.Linear(hidden_size, int(outputs)), std=0.1)

    def describe(self, observation: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """The units, (N, 1 + U, C), the centre of the screen before them; which rows are there, (N, 1 + U); and the
        player's numbers, (N, V)."""
        rows, dtype = observation["feature_units"], self.unit.weight.dtype
        scale = torch.tensor(self.screen, device=rows.device)
        place = (rows[..., [self.x, self.y]].to(dtype) + 0.5) / scale - 0.5  # shares of the screen from its centre
        whose = (rows[..., self.alliance, None] == self.alliances).to(dtype)
        amounts = rows[..., self.columns].to(dtype).clamp(min=0).log1p()
        units = torch.cat([place, whose, amounts], -1)
        present = rows[..., self.alliance] > 0
        units, present = F.pad(units, (0, 0, 1, 0)), F.pad(present, (1, 0), value=True)
        vector = torch.cat([observation["player"].to(dtype), observation["available_actions"].to(dtype)], -1)
        return units, present, vector

    def forward(self, observation: dict[str, Tensor]) -> tuple[list[Tensor], None]:
        """Logits of N observations, as `Agent` gives them, and no value."""
        units, present, vector = self.describe(observation)
        place = units[..., :2]
        units = ((units - self.unit_mean) / self.unit_deviation).clamp(-5, 5)
        vector = ((vector - self.vector_mean) / self.vector_deviation).clamp(-5, 5)
        each = torch.tanh(self.unit(units))
        mean = (each * present[..., None]).sum(-2) / present.sum(-1, keepdim=True)
        most = each.masked_fill(~present[..., None], -1).amax(-2)
        state = torch.tanh(self.state(torch.cat([mean, most, vector], -1)))
        pointed = torch.tanh(self.pointed(each) + self.asked(state)[..., None, :])
        available = observation["available_actions"].bool()
        logits = [self.function(state).masked_fill(~available, -torch.inf)]
        for name, count, size in zip(self.arguments, self.functions, self.sizes, strict=True):
            if name not in SPATIAL_ARGUMENTS:
                logits.append(self.argument[name](state).unflatten(-1, (count, size)))
                continue
            width, height = self.places.get(name, self.screen)
            # where units are on the screen says nothing of the minimap: there every point is a shift from its centre
            rows = 1 if name == "minimap" else units.shape[-2]
            score, shift = self.argument[name](pointed[..., :rows, :]).split([count, 2 * count], -1)
            shares = place[..., :rows, None, :] + 0.5 + 0.5 * torch.tanh(shift).unflatten(-1, (count, 2))
            column = (shares[..., 0] * width).long().clamp(0, width - 1)
            row = (shares[..., 1] * height).long().clamp(0, height - 1)
            score = score.masked_fill(~present[..., :rows, None], -torch.inf).transpose(-1, -2)
            nowhere = torch.full((*score.shape[:-1], size), -torch.inf, dtype=score.dtype, device=score.device)
            logits.append(nowhere.scatter_reduce(-1, (row * width + column).transpose(-1, -2), score, "amax"))
        return logits, None


NETWORKS = {"units": (UnitsAgent, 16), "pixels": (Agent, 128)}  # and their width


def make_agent(args, envs: SC2VectorEnv) -> nn.Module:
    network, width = NETWORKS[args.network]
    agent = network(envs, args.hidden_size or width)
    return agent.to(memory_format=torch.contiguous_format)  # the weights of all members are parts of one vector


@torch.no_grad()
def normalise(agent: nn.Module, args) -> None:
    """Set the mean and the deviation that the agent's inputs are normalised by, from random play with seeds of its own.

    A fixed normaliser, as virtual batch normalisation's reference batch: one that follows the training would be another
    function for each generation.
    """
    if not (args.network == "units" and args.reference_steps):
        return
    games = 16
    envs = make_envs(args, games)
    keys = np.array(stream_seeds(args.seed, range(games), REFERENCE_NOISE), np.uint64)
    argument_mask = torch.tensor(envs.action_set.argument_mask)
    observation, _ = envs.reset(seed=stream_seeds(args.seed, range(games), REFERENCE))
    seen = []
    for step in range(args.reference_steps):
        tensors = {name: torch.from_numpy(array) for name, array in observation.items()}
        units, present, vector = agent.describe(tensors)
        seen.append((units[:, 1:][present[:, 1:]], vector))
        logits = [torch.zeros_like(component) for component in agent(tensors)[0]]
        logits[0] = logits[0].masked_fill(tensors["available_actions"] == 0, -torch.inf)
        noise = torch.from_numpy(uniforms(keys, step, len(logits)))
        observation = envs.step(sample_actions(logits, noise, argument_mask).numpy())[0]
    envs.close()
    for name, parts in zip(("unit", "vector"), zip(*seen, strict=True), strict=True):
        values = torch.cat(parts)
        if len(values) > 1:
            getattr(agent, f"{name}_mean").copy_(values.mean(0))
            # what hardly ever changes in random play may do so later, and must not dwarf all else then
            getattr(agent, f"{name}_deviation").copy_(values.std(0).clamp(min=0.1))


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


# --- a population: many policies in one call -------------------------------------------------------------------------
def perturbations(seed: int, generation: int, pairs, size: int) -> Tensor:
    """Noise of each pair of a generation, (len(pairs), size) float32 standard normal, on the CPU, whatever
    device the network is on. A rank rebuilds it from these numbers; it never travels."""
    keys = (np.random.SeedSequence(seed, spawn_key=(int(pair), *PERTURBATION, generation)) for pair in pairs)
    generators = (np.random.Generator(np.random.Philox(key)) for key in keys)
    return torch.from_numpy(np.stack([generator.standard_normal(size, np.float32) for generator in generators]))


def members_of(centre: Tensor, sigma: float, noise: Tensor) -> Tensor:
    """Weights of the pairs' members, (2 x pairs, size): first all with the noise as it is, then with its sign turned"""
    return torch.cat([centre + sigma * noise, centre - sigma * noise])


class Population:
    """The agent's network with the weights of many members: all in one call by `vmap`, which makes one batch of their
    products of matrices. Member after member (`one_call` False) is the slow and obvious way, to compare with."""

    def __init__(self, agent: nn.Module, one_call: bool = True):
        self.agent, self.one_call = agent, one_call
        self.names, self.shapes = zip(*((name, p.shape) for name, p in agent.named_parameters()), strict=True)
        self.size = sum(shape.numel() for shape in self.shapes)

    def member(self, weights: Tensor, observation: dict[str, Tensor]) -> list[Tensor]:
        """Logits of one member, from its weights (size,)."""
        parts = weights.split([shape.numel() for shape in self.shapes])
        tensors = {name: part.view(shape) for name, part, shape in zip(self.names, parts, self.shapes, strict=True)}
        return functional_call(self.agent, tensors, (observation,))[0]

    def __call__(self, weights: Tensor, observation: dict[str, Tensor]) -> list[Tensor]:
        """Logits of M members with weights (M, size), from as many games of each: (games, ...), a member's in a row."""
        per_member = {name: tensor.unflatten(0, (len(weights), -1)) for name, tensor in observation.items()}
        if self.one_call:
            logits = vmap(self.member)(weights, per_member)
            return [component.flatten(0, 1) for component in logits]
        alone = ({name: tensor[i] for name, tensor in per_member.items()} for i in range(len(weights)))
        rows = [self.member(own, seen) for own, seen in zip(weights, alone, strict=True)]
        return [torch.cat(components) for components in zip(*rows, strict=True)]


# --- play: a block of pairs ------------------------------------------------------------------------------------------
PAIR, RETURN, LENGTH, PLAYED = 0, slice(1, 3), slice(3, 5), 5  # columns of what is known of a pair, (pairs, 6) float64


class Player:
    """Plays blocks of pairs, an episode or more of each member, in games of its own."""

    def __init__(self, args, envs: SC2VectorEnv, population: Population, device):
        self.args, self.envs, self.population, self.device = args, envs, population, device
        self.argument_mask = torch.tensor(envs.action_set.argument_mask, device=device)
        self.arrays: dict[str, np.ndarray] | None = None  # the observation's, always the same ones

    def play(self, generation: int, pairs: range, centre: Tensor, sigma: float, stop) -> np.ndarray | None:
        """What came of these pairs, a row each: number, returns and lengths of both members, times that it was played.
        The returns of a pair that could not be played to its end are NaN. None: a signal came."""
        args, count = self.args, len(pairs)
        weights = members_of(centre, sigma, perturbations(args.seed, generation, pairs, len(centre))).to(self.device)
        results = np.full((count, 6), np.nan)
        results[:, PAIR], results[:, PLAYED] = pairs, 0
        waiting = np.arange(count)  # rows of the pairs that have to be played
        for attempt in range(args.max_reissues + 1):
            # both members of a pair play the same games, so that their returns differ by what they do alone
            numbers = [pairs[i] * args.episodes + e for i in waiting for e in range(args.episodes)]
            seeds = stream_seeds(args.seed, numbers, (*GAMES, generation, attempt))
            noise_keys = stream_seeds(args.seed, numbers, (*ACTION_NOISE, generation, attempt))
            both = torch.from_numpy(np.concatenate([waiting, count + waiting]))
            played = self.play_episodes(weights[both], 2 * seeds, 2 * noise_keys, stop)
            if played is None:
                return None
            returns, lengths = (of_game.reshape(2, len(waiting), args.episodes) for of_game in played)
            results[waiting, RETURN], results[waiting, LENGTH] = returns.mean(2).T, lengths.sum(2).T
            results[waiting, PLAYED] += 1
            whole = np.isfinite(results[waiting, RETURN]).all(1)
            results[waiting[~whole], RETURN] = np.nan
            waiting = waiting[~whole]
            if not len(waiting):
                break
        return results

    @torch.no_grad()
    def play_episodes(self, weights: Tensor, seeds: list, noise_keys: list, stop) -> tuple[np.ndarray, ...] | None:
        """Returns and lengths of the members' episodes, (members x episodes,), NaN for a game that was lost.

        Members act in lockstep. Those that have ended are not computed any more.
        """
        envs, args, used = self.envs, self.args, len(seeds)
        keys = np.array(noise_keys, np.uint64)
        spare = envs.num_envs - used  # games without a member, in a block that is not full
        self.arrays, _ = envs.reset(seed=[*seeds, *seeds[:1] * spare], out=self.arrays)
        returns, lengths = np.zeros(used), np.zeros(used)
        running = np.ones(used, bool)
        plays, games = np.arange(len(weights)), np.arange(used)  # members that play, and their games
        here, step = weights, 0
        while running.any():
            if stop.requested:
                return None
            still = running.reshape(len(weights), -1).any(1).nonzero()[0]
            if len(still) < len(plays):
                plays, here = still, weights[torch.from_numpy(still)]
                games = np.arange(used).reshape(len(weights), -1)[still].ravel()
            logits = self.population(here, self.see(self.arrays, games))
            noise = None
            if args.action_noise:
                logits = [component / args.action_noise for component in logits]
                noise = torch.from_numpy(uniforms(keys[games], step, len(logits))).to(self.device)
            action = np.zeros((envs.num_envs, len(logits)), np.int64)
            action[games] = sample_actions(logits, noise, self.argument_mask).cpu().numpy()
            _, reward, terminated, truncated, info = envs.step(action, out=self.arrays)
            returns[running] += reward[:used][running]
            lengths += running
            returns[running & info["game_restarted"][:used]] = np.nan
            running &= ~(terminated | truncated)[:used] & np.isfinite(returns)
            step += 1
        return returns, lengths

    def see(self, observation: dict[str, np.ndarray], games: np.ndarray) -> dict[str, Tensor]:
        """What the network sees of these games, without the rows of units that no game uses."""
        if self.args.network == "units":
            units = observation["feature_units"]
            longest = int((units[..., FEATURE_UNIT_FIELDS.index("alliance")] > 0).sum(1).max(initial=1))
            observation = {name: observation[name] for name in ("player", "available_actions")}
            observation["feature_units"] = units[:, :longest]
        return {name: torch.from_numpy(array[games]).to(self.device) for name, array in observation.items()}


class Blocks:
    """Deals out the blocks of a generation: a rank that is free takes the next one. Rank 0, or torchrun, counts."""

    def __init__(self, pairs: int, block_pairs: int, ranks: Ranks, timeout_minutes: float):
        self.blocks = [range(first, min(first + block_pairs, pairs)) for first in range(0, pairs, block_pairs)]
        self.ranks, self.patience, self.generation, self.taken = ranks, 60 * timeout_minutes, -1, 0

    def take(self, generation: int) -> range | None:
        """Pairs of the next block that nobody has taken; None: all are taken."""
        if self.ranks.size == 1:
            self.taken = self.taken + 1 if generation == self.generation else 1
            self.generation, taken = generation, self.taken
        else:
            count = partial(self.ranks.meeting.store.add, f"blocks of generation {generation}", 1)
            try:
                taken = rendezvous.within(self.patience, count)
            except (RuntimeError, TimeoutError) as error:
                lost = self.ranks.meeting.find_lost(self.ranks.hang_up, self.ranks.patience)
                raise ConnectionError(f"rank {self.ranks.rank} has lost {lost}: {error}") from None
        return self.blocks[taken - 1] if taken <= len(self.blocks) else None

    def give_up(self, generation: int) -> None:
        """Nobody shall begin another block of a generation that is lost."""
        if self.ranks.size > 1:
            with contextlib.suppress(RuntimeError):  # the collective that follows says who is lost
                self.ranks.meeting.store.add(f"blocks of generation {generation}", len(self.blocks))


# --- learn -----------------------------------------------------------------------------------------------------------
@dataclass
class Generation:
    """What is known of a generation's members: their weights follow from it."""

    number: int
    sigma: float
    centre: Tensor  # (size,) float32
    results: np.ndarray  # (pairs, 6)

    def whole(self) -> np.ndarray:
        """Which pairs have a return of both members, (pairs,) bool."""
        return np.isfinite(self.results[:, RETURN]).all(1)


def shape_returns(returns: np.ndarray, how: str) -> np.ndarray:
    """The weights of members with these returns: numbers of the same shape.

    Centred ranks are evenly spaced from -0.5 to 0.5 (Salimans et al. 2017), equal returns share the mean of their
    ranks. Where all are equal, or there is one alone, there is nothing to learn: 0.
    """
    if returns.size < 2 or (returns == returns.flat[0]).all():
        return np.zeros_like(returns)
    if how == "none":
        return returns
    if how == "standardised":
        return (returns - returns.mean()) / returns.std()
    values, inverse, counts = np.unique(returns, return_inverse=True, return_counts=True)
    rank = counts.cumsum() - (counts + 1) / 2  # from 0, the mean of those that are equal
    return (rank[inverse] / (returns.size - 1) - 0.5).reshape(returns.shape)


def importance_weights(noise: Tensor, shift: Tensor, old_sigma: float, sigma: float) -> Tensor:
    """How much likelier a pair's members are around the new centre than around the one that they were drawn from, at
    most 1; (2, pairs) float64.

    `noise` (pairs, size) is what they were drawn by, `shift` (size,) the old centre less the new one. A member is
    p = old centre +- old sigma x noise, and the weight the ratio of two normal densities at p.
    """
    squares, along = (noise**2).sum(1), noise @ shift
    same = shift @ shift + old_sigma**2 * squares
    distances = torch.stack([same + 2 * old_sigma * along, same - 2 * old_sigma * along])
    log_ratio = squares / 2 - distances / (2 * sigma**2) + noise.shape[1] * np.log(old_sigma / sigma)
    return log_ratio.clamp(max=0).exp()


FRACTION = 2.0**32  # sums are made in units of 1 / FRACTION: whole numbers, whose sum does not depend on the order


class Estimate(NamedTuple):
    """Of the gradient of the expected return, and what it was made from."""

    gradient: Tensor | None  # (size,) float64; None: all members did equally well
    members: int
    outdated: int
    importance: float  # mean weight of the members of earlier centres; 1 where there are none


def estimate_gradient(generations: list[Generation], centre: Tensor, args, ranks) -> Estimate:
    """The gradient at the centre, by the members of the last --history generations, the newest last.

    It is sum(w u (p - centre)) / (sum(w) sigma^2) over the members, with their weights p, shaped returns u and
    importance weights w. Those of the newest generation have w = 1 and count from the centre that they were drawn
    around, which without --wait-update is one update old: theirs is sum(u x noise) / (N sigma). Each rank rebuilds its
    share of the blocks.
    """
    newest = generations[-1]
    fresh = [generation for generation in generations if newest.number - generation.number < args.history]
    outdated = 2 * sum(int(g.whole().sum()) for g in generations if newest.number - g.number >= args.history)
    whole = [generation.whole() for generation in fresh]
    returns = np.concatenate([generation.results[rows, RETURN] for generation, rows in zip(fresh, whole, strict=True)])
    shaped, sigma = shape_returns(returns, args.shaping), newest.sigma
    scale = float(np.abs(shaped).max(initial=0.0))
    if scale == 0:
        return Estimate(None, returns.size, outdated, 1.0)
    total = torch.zeros(len(centre) + 1, dtype=torch.int64)  # the last is the sum of the weights
    of_pair = np.split(shaped / scale, np.cumsum([rows.sum() for rows in whole])[:-1])
    for generation, rows, own_shaped in zip(fresh, whole, of_pair, strict=True):
        shaped_of = np.zeros((len(rows), 2))
        shaped_of[rows] = own_shaped
        shift = (generation.centre - centre).double() * (generation is not newest)
        for first in range(ranks.rank * args.block_pairs, len(rows), ranks.size * args.block_pairs):
            pairs = np.arange(first, min(first + args.block_pairs, len(rows)))
            noise = perturbations(args.seed, generation.number, pairs, len(centre)).double()
            w = torch.ones(2, len(pairs), dtype=torch.float64)
            if generation is not newest:
                w = importance_weights(noise, shift, generation.sigma, sigma)
            w = w * torch.from_numpy(rows[pairs])
            u = torch.from_numpy(shaped_of[pairs].T) * w
            part = (u.sum() * shift + generation.sigma * ((u[0] - u[1]) @ noise)) / sigma
            part = torch.cat([part, w.sum()[None]])
            if not part.abs().max() < 2.0**20:
                raise RuntimeError(f"the gradient of generation {generation.number} is no number, or out of all bounds")
            total += (part * FRACTION).round().long()
    ranks.sum(total)
    *sums, weight = (total.double() / FRACTION).split([len(centre), 1])
    earlier = returns.size - 2 * int(whole[-1].sum())
    importance = (weight.item() - (returns.size - earlier)) / earlier if earlier else 1.0
    return Estimate(sums[0] * (scale / (sigma * weight.item())), returns.size, outdated, importance)


OPTIMIZERS = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "rmsprop": torch.optim.RMSprop,
    "adagrad": torch.optim.Adagrad,
    "sgd": torch.optim.SGD,
}


def make_optimizer(args, parameters) -> torch.optim.Optimizer:
    settings = {"lr": args.learning_rate, "weight_decay": args.weight_decay}
    if args.optimizer != "sgd":
        settings["eps"] = args.optimizer_eps
    if args.optimizer in ("sgd", "rmsprop"):
        settings["momentum"] = args.momentum
    return OPTIMIZERS[args.optimizer](parameters, **settings)


# --- games and evaluation --------------------------------------------------------------------------------------------
def env_keywords(args) -> dict:
    sizes = {"screen_size": args.screen_size, "minimap_size": args.minimap_size, "step_mul": args.step_mul}
    if args.network == "pixels":
        return sizes
    # the layers are not looked at: the fewest that there can be
    few = {"screen_layers": ["player_relative"], "minimap_layers": ["player_relative"]}
    return sizes | few | {"features": {"feature_units": args.max_units}}


def make_envs(args, num_envs: int) -> SC2VectorEnv:
    envs = gym.make_vec(args.env_id, num_envs=num_envs, **env_keywords(args))
    # a game that has ended resets itself in its next step, so an end's observation is the next row of the rollout
    assert envs.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP, envs.metadata
    return envs


@torch.no_grad()
def evaluate_over_ranks(agent, args, greedy: bool, device, stop, ranks) -> tuple[list[float], bool]:
    """Returns of the episodes of an evaluation, a game each, so that short ones do not count more often; and whether a
    signal to any rank ended it early.

    Their seeds are a branch that training never uses; episode k is the same however many ranks share the work.
    """
    own = range(ranks.rank, args.eval_episodes, ranks.size)
    episodes = own or [0]  # a rank without an episode plays along, and counts nothing
    envs = make_envs(args, len(episodes))
    noise_keys = np.array(stream_seeds(args.seed, episodes, EVALUATION_NOISE), np.uint64)
    argument_mask = torch.tensor(envs.action_set.argument_mask, device=device)
    observation, _ = envs.reset(seed=stream_seeds(args.seed, episodes, EVALUATION))
    returns, running, step = np.zeros(len(episodes)), np.full(len(episodes), bool(own)), 0
    # every rank takes part until the last one is done, since to stop is decided together
    anyone_plays, stopped = ranks.any(bool(running.any()), bool(stop.requested))
    while anyone_plays and not stopped:
        logits, _ = agent({name: torch.from_numpy(array).to(device) for name, array in observation.items()})
        noise = None if greedy else torch.from_numpy(uniforms(noise_keys, step, len(logits))).to(device)
        action = sample_actions(logits, noise, argument_mask).cpu().numpy()
        observation, reward, terminated, truncated, info = envs.step(action)
        returns += reward * running
        returns[info["game_restarted"]] = 0  # a game that was lost is no episode: it plays another one
        running &= ~(terminated | truncated) | info["game_restarted"]
        step += 1
        anyone_plays, stopped = ranks.any(bool(running.any()), bool(stop.requested))
    envs.close()
    of_all = torch.zeros(args.eval_episodes, dtype=torch.float64)
    of_all[ranks.rank :: ranks.size] = torch.from_numpy(returns)[: len(own)]
    return ranks.sum(of_all).tolist(), stopped


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


EVALUATION_METRICS = {"sampled": "eval/episodic_return", "greedy": "eval/episodic_return_greedy"}  # by policy


def evaluate_and_film(agent, args, video_path: Path, device, stop, ranks) -> tuple[dict, str | None, bool]:
    """Evaluate the agent on all ranks, and film it on rank 0. Returns the evaluation, by policy, the path of a video,
    and whether a signal to any rank cut it short."""
    evaluation = {}
    for policy in EVALUATION_METRICS if args.eval_episodes else ():
        returns, stopped = evaluate_over_ranks(agent, args, policy == "greedy", device, stop, ranks)
        if stopped:
            return evaluation, None, True
        evaluation[policy] = run_folder.summary(returns)
        ranks.say(f"{policy:7} policy: {run_folder.summary_line(evaluation[policy])}")
    return evaluation, film(agent, args, video_path, device) if args.capture_video and ranks.first else None, False


class Acting(nn.Module):
    """The agent as it acts in training: drawn at the temperature --action-noise, or the likeliest alone possible."""

    def __init__(self, agent: nn.Module, action_noise: float):
        super().__init__()
        self.agent, self.action_noise = agent, action_noise

    def forward(self, observation: dict[str, Tensor]) -> tuple[list[Tensor], None]:
        logits, _ = self.agent(observation)
        if self.action_noise:
            return [component / self.action_noise for component in logits], None
        nowhere = [torch.full_like(component, -torch.inf) for component in logits]
        likeliest = [component.argmax(-1, keepdim=True) for component in logits]
        return [no.scatter(-1, best, 0.0) for no, best in zip(nowhere, likeliest, strict=True)], None


# --- runs and checkpoints --------------------------------------------------------------------------------------------
ALGORITHM = "es"  # what a checkpoint is of: other weights would not fit, or mean something else
# the games and the network: an evaluation takes them from the checkpoint; a resumed run cannot change the fixed ones
CHECKPOINT_ARGS = ("env_id", "screen_size", "minimap_size", "step_mul", "network", "max_units", "hidden_size")
CHECKPOINT_ARGS += ("action_noise",)
FIXED_ARGS = (*CHECKPOINT_ARGS, "seed", "population", "block_pairs", "episodes", "sigma", "sigma_decay", "sigma_min")
FIXED_ARGS += ("shaping", "history", "wait_update", "max_reissues", "reference_steps", "optimizer", "optimizer_eps")
FIXED_ARGS += ("momentum", "weight_decay", "num_threads")


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


def find_run(args) -> bytes:
    """The run folder and the checkpoint to continue, if any, as JSON; a checkpoint of other arguments is refused."""
    default_name = f"{args.env_id.rpartition(':')[2]}__{args.exp_name}__{args.seed}"
    folder, path = run_folder.locate(args.runs_dir, args.run_name, default_name, args.resume)
    if path:
        run_folder.refuse_other_args(path, read_checkpoint(path), asdict(args), FIXED_ARGS)
    return json.dumps([str(folder), path and str(path)]).encode()


def read_to_evaluate(path: str, envs: SC2VectorEnv) -> bytes:
    """The checkpoint's bytes, if it was made for these games."""
    run_folder.load_checkpoint(path, envs.single_observation_space, envs.single_action_space, resuming=False)
    return Path(path).read_bytes()


def save(run, args, counters, agent, optimizer, envs, drawn: Tensor, generations: list[Generation]) -> None:
    """Write a checkpoint: what every rank has, whatever their number, so it is one rank's alone."""
    earlier = [vars(generation) | {"results": torch.from_numpy(generation.results)} for generation in generations]
    own = {"drawn": drawn, "generations": earlier}
    save_checkpoint(run, args, counters, agent, optimizer, envs, [own])


def read_to_continue(path: Path, envs: SC2VectorEnv) -> bytes:
    """The checkpoint's bytes, if it was made for these games; by how many ranks does not matter."""
    run_folder.load_checkpoint(path, envs.single_observation_space, envs.single_action_space, resuming=True)
    return path.read_bytes()


def sigma_of(args, generation: int) -> float:
    return max(args.sigma_min, args.sigma * args.sigma_decay**generation)


def check_args(args, ranks) -> None:
    """Refuse what is impossible before a single game is started."""
    least = dict.fromkeys(("total_timesteps", "step_mul", "max_units", "block_pairs", "episodes", "num_threads"), 1)
    least |= dict.fromkeys(("checkpoint_every", "keep_checkpoints", "checksum_every", "history"), 1)
    least |= {"population": 2, "eval_episodes": 0, "screen_size": 16, "minimap_size": 16, "max_reissues": 0}
    least |= {"seed": 0, "hidden_size": 0, "timeout_minutes": 1e-3, "join_minutes": 1e-3}
    least |= {"sigma": 1e-8, "sigma_min": 1e-8, "sigma_decay": 1e-8, "action_noise": 0.0}
    least |= {"reference_steps": 0, "evaluate_every": 0}
    for name, value in least.items():
        if not value <= getattr(args, name) < float("inf"):
            raise SystemExit(f"--{name.replace('_', '-')} {getattr(args, name)}: it has to be at least {value}")
    if args.sigma < args.sigma_min:
        raise SystemExit(f"--sigma {args.sigma} is less than --sigma-min {args.sigma_min}")
    if args.population % 2:
        raise SystemExit(f"--population {args.population}: members come in pairs, it has to be even")
    if args.track and not importlib.util.find_spec("wandb"):
        raise SystemExit("--track needs the package wandb: pip install wandb")
    run_folder.check_env_id(args.env_id)


# --- the program -----------------------------------------------------------------------------------------------------
def check_equal_args(args, ranks) -> None:
    """Refuse ranks that were started with other flags than rank 0: they would wait for each other in vain."""
    own = ("rank", "local_rank", "master_addr", "master_port", "num_threads", "runs_dir")
    ours = {name: value for name, value in asdict(args).items() if name not in own}
    theirs = json.loads(ranks.from_first(lambda: json.dumps(ours).encode()))
    differ = [name for name in ours if ours[name] != theirs[name]]
    other = [f"--{name.replace('_', '-')} {ours[name]} (rank 0: {theirs[name]})" for name in differ]
    if any(ranks.any(bool(other))):
        raise SystemExit(f"rank {ranks.rank} was started with {', '.join(other)}" if other else 1)


def main(args: Args) -> dict:
    """Returns on rank 0 what result.json holds, or the part of an evaluation alone."""
    ranks = find_ranks(args)
    try:
        check_args(args, ranks)
    except SystemExit as error:  # said once, not by every rank
        raise error if ranks.first else SystemExit(1) from None
    gpus = torch.cuda.device_count() if args.cuda else 0
    device = torch.device("cuda", ranks.local_rank % gpus) if gpus else torch.device("cpu")
    if gpus:
        torch.cuda.set_device(device)
    if args.num_threads or ranks.size > 1:  # ranks share the cores
        torch.set_num_threads(args.num_threads or 1)
    torch.manual_seed(args.seed)
    torch.backends.cudnn.deterministic = args.torch_deterministic
    allocator.keep_freed_memory()
    compile_engine()  # minutes, once on each machine: before the others wait for this rank
    rendezvous.end_with_launcher(ranks.rank, ranks.launcher)
    ranks.join(device, args.timeout_minutes, args.join_minutes)  # a signal ends it: there is nothing to save yet
    with run_folder.StopSignal() as stop:
        try:
            check_equal_args(args, ranks)
            result = (evaluate_checkpoint if args.evaluate else train)(args, device, stop, ranks)
            ranks.any(False)  # nobody hangs up while another one still talks
        finally:
            ranks.leave()
    return result


class Update(NamedTuple):
    """What an update did, the same on every rank but for the seconds."""

    generation: Generation
    estimate: Estimate
    sent: float  # bytes that each rank hands to others, on average, where the sum goes round a ring
    stopped: bool
    late: bool
    play_seconds: float  # of this rank
    learn_seconds: float

    def steps(self) -> int:
        """Env steps that were learnt from."""
        return int(self.generation.results[self.generation.whole(), LENGTH].sum())

    def metrics(self, centre: Tensor, optimizer, episodes: int) -> dict[str, float]:
        whole, results = self.generation.whole(), self.generation.results
        returns, norm = results[whole, RETURN], self.estimate.gradient
        found = {
            "charts/learning_rate": optimizer.param_groups[0]["lr"],
            "es/sigma": self.generation.sigma,
            "es/members": self.estimate.members,
            "es/outdated_members": self.estimate.outdated,
            "es/importance": self.estimate.importance,
            "es/replayed_pairs": (results[:, PLAYED] > 1).sum(),
            "es/dropped_pairs": (~whole).sum(),
            "es/gradient_norm": 0.0 if norm is None else norm.norm().item(),
            "es/centre_norm": centre.norm().item(),
            "es/bytes_sent": self.sent,
            "time/play": self.play_seconds,
            "time/learn": self.learn_seconds,
        }
        if returns.size:
            found |= {
                "charts/episodic_return": returns.mean(),
                "charts/episodic_length": results[whole, LENGTH].mean() / episodes,
                "es/return_deviation": returns.std(),
                "es/best_return": returns.max(),
            }
        return {name: float(value) for name, value in found.items()}


class Learner:
    """Moves the centre: gathers what the ranks have played, and takes a step along the estimated gradient."""

    def __init__(self, args, centre: nn.Parameter, optimizer, ranks: Ranks):
        self.args, self.centre, self.optimizer, self.ranks = args, centre, optimizer, ranks
        self.generations: list[Generation] = []  # those that a later update may learn from, the newest last

    def gather(self, own: list[np.ndarray]) -> np.ndarray:
        """The results of all ranks, in the order of the pairs."""
        data = np.concatenate([np.empty((0, 6)), *own]).tobytes()
        parts = self.ranks.gather(data)
        everything = self.ranks.from_first(lambda: b"".join(parts)) if self.ranks.size > 1 else data
        results = np.frombuffer(everything).reshape(-1, 6)
        return results[results[:, PAIR].argsort()]

    def update(
        self, number: int, centre: Tensor, drawn: Tensor, own: list, left: float, flags: tuple, played
    ) -> Update:
        """Learn from generation `number`, of which this rank has played `own`.

        `centre` is the centre as it is, `drawn` the one that the generation was drawn around; `left` is the share of
        the training that is left, `flags` whether a signal came and whether time is up, and `played` the seconds that
        this rank played.
        """
        begun = time.perf_counter()
        args, ranks = self.args, self.ranks
        stopped, late = ranks.any(*flags)
        results = self.gather(own)
        generation = Generation(number, sigma_of(args, number), drawn, results)
        estimate, sent = Estimate(None, 0, 0, 1.0), results.nbytes * (1 + 1 / ranks.size)
        if not stopped:  # else blocks are missing
            if results[:, PAIR].tolist() != list(range(args.population // 2)):
                raise RuntimeError(
                    f"generation {number} has pairs {results[:, PAIR].tolist()}: some are lost or doubled"
                )
            if not generation.whole().any():
                raise RuntimeError(
                    f"no pair of generation {number} could be played to its end: are the games at fault?"
                )
            self.generations.append(generation)
            estimate = estimate_gradient(self.generations, centre, args, ranks)
            self.optimizer.param_groups[0]["lr"] = args.learning_rate * (left if args.anneal_lr else 1)
            if estimate.gradient is not None:
                self.centre.grad = -estimate.gradient.to(self.centre.dtype)
                self.optimizer.step()
                if not self.centre.isfinite().all():
                    raise RuntimeError(f"the centre's weights are no numbers any more after generation {number}")
                sent += 2 * 8 * (len(centre) + 1)  # a ring's two rounds
            # the oldest of these is outdated at the next update, and is counted there
            self.generations = self.generations[-args.history :] if args.history > 1 else []
        sent *= (ranks.size - 1) / ranks.size  # nobody sends to itself
        return Update(generation, estimate, sent, stopped, late, played, time.perf_counter() - begun)


def in_background(function, *arguments) -> Future:
    """What a function will have returned; its thread ends with the program, whatever it waits for."""
    future: Future = Future()

    def work():
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


def train(args, device, stop, ranks) -> dict:
    torch.set_num_threads(args.num_threads)
    folder, checkpoint_path = (path and Path(path) for path in json.loads(ranks.from_first(find_run, args)))

    # the games of a block, the network, the centre
    pairs = args.population // 2
    block_pairs = min(args.block_pairs, pairs)
    envs = make_envs(args, 2 * block_pairs * args.episodes)
    agent = make_agent(args, envs)
    if not checkpoint_path:
        normalise(agent, args)
    for tensor in agent.state_dict().values():
        ranks.broadcast(tensor)
    counters, checkpoint = Counters(), None
    if checkpoint_path:
        checkpoint = from_bytes(ranks.from_first(read_to_continue, checkpoint_path, envs))
        agent.load_state_dict(checkpoint["agent"])
    centre = nn.Parameter(parameters_to_vector(agent.parameters()).detach().clone())
    learner = Learner(args, centre, make_optimizer(args, [centre]), ranks)
    if checkpoint:
        own, counters = checkpoint["ranks"][0], resume(checkpoint, agent, learner.optimizer)
        learner.generations = [
            Generation(**earlier | {"results": earlier["results"].numpy()}) for earlier in own["generations"]
        ]
        ranks.say(f"continues {checkpoint_path}: {counters.global_step:,} of {args.total_timesteps:,} steps are done")
    agent.to(device)
    player = Player(args, envs, Population(agent), device)
    blocks = Blocks(pairs, block_pairs, ranks, args.timeout_minutes)

    run, progress = None, None  # of rank 0, which alone writes and shows
    if ranks.first:
        gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
        config = run_folder.describe(asdict(args), args.exp_name, ranks.size, gpu)
        run = start_run(args, folder, config, counters.global_step if checkpoint_path else None)
        progress = run_folder.ProgressLine(args.total_timesteps)
    ranks.say(
        f"{ranks.size} rank(s), launcher {ranks.launcher}, backend {ranks.backend}, {device}; run folder {folder}\n"
        f"a generation: {pairs} pairs in {len(blocks.blocks)} block(s), each {envs.num_envs} games on one rank; "
        f"the network has {len(centre):,} weights"
        + f"\n{ranks.size - len(blocks.blocks)} rank(s) find no block to play"
        * (ranks.size > len(blocks.blocks))
    )
    # the centre that generation `counters.update` is drawn around; without --wait-update it is one update older
    drawn = own["drawn"] if checkpoint else centre.detach().clone()
    acting = Acting(agent, args.action_noise)
    stopped = late = ended = False
    saved_at = counters.update
    clock = time.perf_counter()  # from here on: making the engine and the network is not training

    def conclude(update: Update) -> None:
        """Count an update and report it; every rank does it at the same place."""
        nonlocal clock, stopped, late, ended, drawn
        stopped, late = update.stopped, update.late
        ended = stopped or late
        if stopped:  # the generation is played again when the run goes on, around the same centre
            drawn = update.generation.centre
            return
        counters.update += 1
        counters.global_step += update.steps()
        now = time.perf_counter()
        counters.training_seconds, clock = counters.training_seconds + now - clock, now
        ended |= counters.global_step >= args.total_timesteps
        vector_to_parameters(centre.detach().to(device), agent.parameters())
        if counters.update % args.checksum_every == 0:
            check_equal_weights(agent, ranks)
        metrics = update.metrics(centre, learner.optimizer, args.episodes)
        if args.evaluate_every and counters.update % args.evaluate_every == 0 and args.eval_episodes:
            returns, stopped = evaluate_over_ranks(acting, args, False, device, stop, ranks)
            ended |= stopped
            if not stopped:
                metrics["es/centre_return"] = sum(returns) / len(returns)
            clock = time.perf_counter()
        if ranks.first:
            metrics["charts/SPS"] = counters.global_step / counters.training_seconds
            run.log(counters.global_step, counters.training_seconds, metrics)
            progress.show(counters.global_step, metrics["charts/SPS"], metrics.get("charts/episodic_return"))

    def save_now() -> None:
        if ranks.first:
            save(run, args, counters, agent, learner.optimizer, envs, drawn, learner.generations)

    def save_if_due() -> None:
        nonlocal saved_at
        if counters.update // args.checkpoint_every > saved_at // args.checkpoint_every:
            saved_at = counters.update
            save_now()

    pending: Future | None = None  # the update that is being made
    try:
        ended = counters.global_step >= args.total_timesteps
        while not ended:
            number, begun, own = counters.update + (pending is not None), time.perf_counter(), []
            while (block := blocks.take(number)) is not None:
                own.append(player.play(number, block, drawn, sigma_of(args, number), stop))
                if own[-1] is None:
                    blocks.give_up(number)
                    break
            seconds = time.perf_counter() - begun
            if pending:
                conclude(pending.result())
                pending = None
                if ended:
                    break
                save_if_due()
            left = 1 - counters.global_step / args.total_timesteps
            interrupted = bool(stop.requested) or any(played is None for played in own)
            limit = ranks.first and 0 < 60 * args.max_training_minutes < counters.training_seconds
            newest = centre.detach().clone()
            what = (number, newest, drawn, [] if interrupted else own, left, (interrupted, limit), seconds)
            if args.wait_update:
                conclude(learner.update(*what))
                drawn = centre.detach().clone()
                save_if_due()
            else:
                pending, drawn = in_background(learner.update, *what), newest
        vector_to_parameters(centre.detach().to(device), agent.parameters())
        save_now()
        ranks.say(f"all ranks hold the same weights, checksum {check_equal_weights(agent, ranks):012x}")
        if ranks.first:
            progress.close()
        evaluation, video_file = {}, None
        if not stopped:
            video_path = folder / "videos" / f"step_{counters.global_step}.mp4"
            evaluation, video_file, stopped = evaluate_and_film(acting, args, video_path, device, stop, ranks)
        if ranks.first:
            for policy, summary in evaluation.items():
                metrics = {EVALUATION_METRICS[policy]: summary["mean"]}
                run.log(counters.global_step, counters.training_seconds, metrics)
            run.result |= {"evaluation": evaluation, "video": video_file}
            run.result["status"] = "interrupted" if stopped else "finished"
            path = run.result["checkpoint"]
            how = f"stopped by a signal; the same command with --resume {path} continues\n" if stopped else ""
            ranks.say(f"{how}checkpoint   {path}\nTensorBoard  tensorboard --logdir {folder}")
    finally:
        if ranks.first:
            progress.close()
            end_run(args, run)
        envs.close()
    return run.result if ranks.first else {}


def evaluate_checkpoint(args, device, stop, ranks) -> dict:
    # the games and the network are the checkpoint's; seed, number of episodes, and a video or not are what is asked now
    saved = json.loads(ranks.from_first(lambda: json.dumps(read_checkpoint(args.evaluate)["args"]).encode()))
    args = replace(args, **{name: saved[name] for name in CHECKPOINT_ARGS})
    envs = make_envs(args, 1)
    checkpoint = from_bytes(ranks.from_first(read_to_evaluate, args.evaluate, envs))
    agent = make_agent(args, envs).to(device)
    agent.load_state_dict(checkpoint["agent"])
    envs.close()
    global_step = checkpoint["global_step"]
    video_path = Path(args.evaluate).parent.parent / "videos" / f"step_{global_step}.mp4"
    acting = Acting(agent, args.action_noise)
    evaluation, video_file, _ = evaluate_and_film(acting, args, video_path, device, stop, ranks)
    return {"evaluation": evaluation, "video": video_file, "checkpoint": args.evaluate, "env_steps": global_step}


if __name__ == "__main__":
    main(tyro.cli(Args))
    # Gloo's threads outlive their process group, and now and then crash an interpreter that is being taken down
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
