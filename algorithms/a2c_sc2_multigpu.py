"""Synchronous advantage actor-critic on StarCraft II mini-games, over any number of processes.

    torchrun --standalone --nproc_per_node=2 algorithms/a2c_sc2_multigpu.py --env-id SC2MoveToBeacon-v0
    srun --ntasks=8 python algorithms/a2c_sc2_multigpu.py
    python algorithms/a2c_sc2_multigpu.py --evaluate runs/<run>/checkpoints/<checkpoint>.pt

`a2c_sc2.py` is the same in one process: read it first. Here each process, a rank, plays `num_envs` games of its own
and all ranks average their gradients, so that R ranks with B games do what one rank does with R x B games. Games,
weights and action noise are a function of the seed and of the game's number in the whole job alone.

A rank may play more games than a batch holds (`--batch-games`), play while it learns (`--overlap`) and act by weights
that are refreshed now and then (`--policy-refresh`). Then steps are learnt from by a policy that has moved on. By how
many updates is a number that follows from these flags (`Schedule`); an importance ratio or V-trace corrects for it
(Espeholt et al. 2018, IMPALA).
Docs: docs/algorithms/a2c.md
"""

import copy
import hashlib
import importlib.util
import io
import json
import math
import os
import sys
import threading
import time
from concurrent.futures import Future, wait
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

from sc2_envs import SC2VectorEnv, allocator, rendezvous, run_folder, video
from sc2_envs.actions import SPATIAL_ARGUMENTS
from sc2_envs.engine import ENGINE_VERSION, compile_engine
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
    """CPU threads of PyTorch in each rank; 0: one, or PyTorch's own choice for a rank that is alone"""
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
    timeout_minutes: float = 1.5
    """how long ranks wait for each other before they give up"""
    join_minutes: float = 10.0
    """the same at the start, where a machine may first have to compile the engine"""
    checksum_every: int = 100
    """updates between two checks that all ranks have the same weights"""

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
    """env steps of the whole run, over all ranks"""
    max_training_minutes: float = 0.0
    """end the training after this time; 0: no limit"""
    num_envs: int = 32
    """games that each rank plays side by side, a multiple of --batch-games"""
    num_steps: int = 16
    """steps of each game in a rollout"""
    batch_games: int = 0
    """games of a square batch, which is --num-steps of each; 0: all that the rank plays"""
    accumulate: int = 1
    """square batches that one update learns from"""
    overlap: bool = False
    """if toggled, the next rollout is played while this one is learnt from, by the policy as it is by then"""
    policy_refresh: int = 1
    """updates between two refreshes of the policy that acts"""
    max_lag: int | None = None
    """most updates that the policy may have made since it acted when its steps are learnt from: rather than more, play
    waits; default: as many as the other flags lead to"""
    correction: Literal["none", "ratio", "v_trace"] = "ratio"
    """what is done about that lag: nothing, weigh each step by the importance ratio, or V-trace"""
    ratio_clamp: float = 10.0
    """the importance ratio's upper bound"""
    rho_clip: float = 1.0
    """V-trace's upper bound of the importance ratio of a step's own error"""
    c_clip: float = 1.0
    """V-trace's upper bound of the importance ratio with which later errors are traced back"""
    hidden_size: int = 128
    """width of the network's dense layer"""
    optimizer: Literal["adam", "adamw", "rmsprop", "adagrad", "sgd"] = "adam"
    """the optimizer"""
    optimizer_eps: float = 1e-5
    """the optimizer's epsilon, which SGD has not"""
    momentum: float = 0.0
    """the momentum of SGD and RMSprop"""
    weight_decay: float = 0.0
    """the optimizer's weight decay"""
    precision: Literal["float32", "bf16", "fp16"] = "float32"
    """what the network computes in: with the other two by autocast, with fp16 under a loss scale too"""
    compile: bool = False
    """if toggled, the network is compiled by torch.compile"""
    learning_rate: float = 1e-3
    """the learning rate of the optimizer; it is not scaled by the number of ranks"""
    anneal_lr: bool = True
    """if toggled, the learning rate falls linearly to 0 at --total-timesteps"""
    gamma: float = 0.99
    """the discount factor per env step"""
    gae_lambda: float = 0.95
    """the lambda of generalised advantage estimation; 1: plain n-step returns"""
    norm_adv: bool = True
    """if toggled, advantages are normalised over the batch of all ranks"""
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
    value_loss: Literal["squared", "smooth_l1"] = "squared"
    """the value loss"""
    max_grad_norm: float = 0.5
    """the averaged gradient is clipped to this norm; 0: not at all"""
    clip_norm: Literal["l2", "inf"] = "l2"
    """which norm: the root of the sum of squares, or the largest entry"""
    reduce_gradients: bool = True
    """if toggled, the ranks average their gradients; else each learns for itself, and rank 0's agent is evaluated"""


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


def average_gradients(model: nn.Module, weight: float, total_weight: float, ranks: Ranks) -> None:
    """All-reduce the gradient in one flat bucket: the sum over the ranks of weight / total_weight times their own.

    A parameter without a gradient on this rank still takes part, or the buckets of the ranks would differ in size.
    """
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    bucket = torch.cat([gradient.flatten() for gradient in gradients]) * (weight / total_weight)
    ranks.sum(bucket)
    for p, part in zip(model.parameters(), bucket.split([g.numel() for g in gradients]), strict=True):
        p.grad = part.view(p.shape)


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


def importance_ratio(log_ratio: Tensor, bound: float) -> Tensor:
    """min(pi(a) / mu(a), bound) from log pi(a) - log mu(a): a quotient of small probabilities is never formed.

    An action that the policy does not take any more counts 0, also where it never did (-inf - -inf).
    """
    return log_ratio.nan_to_num(nan=-torch.inf, neginf=-torch.inf).clamp(max=math.log(bound)).exp()


def v_trace(
    reward: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    value: Tensor,
    next_value: Tensor,
    log_ratio: Tensor,
    gamma: float,
    trace_lambda: float,
    rho_clip: float,
    c_clip: float,
) -> tuple[Tensor, Tensor]:
    """V-trace targets of the value (Espeholt et al. 2018, equation 1, c_i = lambda min(c_clip, ratio)), and the returns
    that the policy gradient compares with the value; all tensors (T, B), ends as in `n_step_returns`.

    At log_ratio 0 and clips of 1 or more both are those of `n_step_returns`, for every lambda: the paper's policy
    gradient takes r + gamma v_{t+1}, here its part beyond the next value is weighted with lambda too.
    """
    rho, trace = importance_ratio(log_ratio, rho_clip), trace_lambda * importance_ratio(log_ratio, c_clip)
    delta = reward + gamma * next_value * ~terminated - value
    targets, returns = torch.empty_like(value), torch.empty_like(value)
    beyond = torch.zeros_like(value[-1])  # v_{t+1} - V(x_{t+1})
    for t in reversed(range(len(reward))):
        beyond = beyond * ~(terminated[t] | truncated[t])
        returns[t] = value[t] + delta[t] + gamma * trace_lambda * beyond
        beyond = rho[t] * delta[t] + gamma * trace[t] * beyond
        targets[t] = value[t] + beyond
    return targets, returns


# --- the schedule: which policy plays which rollout, and which update learns from it ----------------------------------
@dataclass(frozen=True)
class Schedule:
    """Rollouts are cut into squares of B games x T steps, which are learnt from in the order of their numbers, so that
    the oldest is next: rollout r holds squares r * squares and on, update u learns from squares u * accumulate and on.

    Who plays what follows from the flags alone. Without overlap a rollout begins when all squares of the one before
    are learnt from; with it as soon as that one is complete, or after so many of its squares as `max_lag` demands.
    """

    squares: int = 1  # of a rollout
    accumulate: int = 1
    refresh: int = 1
    overlap: bool = False
    max_lag: int | None = None

    def behaviour(self, rollout: int, learnt: int) -> int:
        """The policy that plays a rollout which begins when `learnt` squares of the one before are learnt from: the
        number of updates behind it, at the last refresh."""
        updates = max(0, (rollout - 1) * self.squares + learnt) // self.accumulate
        return updates // self.refresh * self.refresh

    def lag(self, rollout: int, learnt: int) -> int:
        """Updates between that policy and the one that learns from the rollout's last square."""
        return ((rollout + 1) * self.squares - 1) // self.accumulate - self.behaviour(rollout, learnt)

    def begins_after(self, rollout: int) -> int:
        """The number of squares of the rollout before that are learnt from first.

        Raises:
            ValueError: where the bound cannot be held, however long play waits.
        """
        first = 0 if self.overlap else self.squares
        for learnt in range(first, self.squares + 1):
            if self.max_lag is None or self.lag(rollout, learnt) <= self.max_lag:
                return learnt
        raise ValueError(f"a lag of {self.lag(rollout, self.squares)} updates")

    def largest_lag(self) -> int:
        """Over all rollouts: what a rollout is like depends on how far it begins within a refresh, so it repeats."""
        period = self.accumulate * self.refresh // math.gcd(self.squares, self.accumulate * self.refresh)
        return max(self.lag(rollout, self.begins_after(rollout)) for rollout in range(period + 2))


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


STEP_ARRAYS = ("action", "reward", "terminated", "truncated", "valid")  # of a Rollout, (T, B, ...) each


def square_of(rollout: Rollout, games: slice) -> Rollout:
    """The rows of some of the games, without a copy."""
    square = object.__new__(Rollout)
    square.observation = {name: array[:, games] for name, array in rollout.observation.items()}
    for name in STEP_ARRAYS:
        setattr(square, name, getattr(rollout, name)[:, games])
    return square


@dataclass
class Played:
    """A rollout, and how it came about."""

    rollout: Rollout
    passes: list[ForwardPass]
    version: int  # of the policy that acted: the updates behind it
    seconds: float = 0.0
    held_seconds: float = 0.0  # how long it was not begun, so that its lag keeps within the bound
    waited_seconds: float = 0.0  # how long it was waited for


class Actor:
    """Plays one rollout after the other: with `--overlap` on a thread of its own, else when it is asked for one.

    Where no step is ever learnt from by a later policy, the learner's own network acts, and the graph of its passes is
    kept for the update. Else a copy of its weights acts, which no update changes meanwhile.
    """

    def __init__(self, args, schedule: Schedule, envs: SC2VectorEnv, agent: nn.Module, noise_keys, device):
        self.args, self.schedule, self.envs, self.noise_keys, self.device = args, schedule, envs, noise_keys, device
        self.agent = agent
        self.acting = agent if schedule.largest_lag() == 0 else copy.deepcopy(agent)
        self.network = network_of(self.acting, args, device)
        self.newest = {} if self.acting is agent else {k: tensor.clone() for k, tensor in agent.state_dict().items()}
        self.newest_version = 0
        # a thread writes into one while the other is learnt from
        self.rollouts = [Rollout(envs, args.num_steps) for _ in range(2 if args.overlap else 1)]
        self.coming: Future | None = None
        self.played_at = time.perf_counter()

    def refresh(self, update: int) -> None:
        """Rollouts that begin from now on are played by the policy after this update, if it is one to refresh at."""
        if update % self.schedule.refresh == 0:
            self.newest_version, weights = update, self.agent.state_dict()
            for name, tensor in self.newest.items():
                tensor.copy_(weights[name])

    def begin(self, number: int, held: bool = False) -> None:
        """Begin to play a rollout; `held`: only now, so that its lag keeps within the bound."""
        held_seconds = time.perf_counter() - self.played_at if held else 0.0
        last, rollout = self.rollouts[number % len(self.rollouts) - 1], self.rollouts[number % len(self.rollouts)]
        if rollout is not last:
            rollout.start_from({name: array[-1] for name, array in last.observation.items()})
            rollout.ended = last.ended
        if self.newest:
            self.acting.load_state_dict(self.newest)
        self.coming = Future()
        work = (self.coming, rollout, number * self.args.num_steps, self.newest_version, held_seconds)
        if self.args.overlap:
            threading.Thread(target=self.play, args=work, daemon=True, name="play").start()
        else:
            self.play(*work)

    def play(self, future: Future, rollout: Rollout, env_step: int, version: int, held_seconds: float) -> None:
        begun = time.perf_counter()
        try:
            with torch.set_grad_enabled(self.acting is self.agent):
                passes = play(
                    self.envs, self.network, rollout, self.noise_keys, env_step, self.device, self.args.norm_ent
                )
        except BaseException as error:  # it ends the training, where the rollout is waited for
            future.set_exception(error)
        else:
            self.played_at = time.perf_counter()
            future.set_result(Played(rollout, passes, version, self.played_at - begun, held_seconds))

    def take(self, number: int) -> Played:
        """The rollout of this number, when it is complete."""
        if self.coming is None:
            self.begin(number)
        future, self.coming = self.coming, None
        minutes, asked = self.args.timeout_minutes, time.perf_counter()
        if wait([future], timeout=60 * minutes).not_done:
            raise TimeoutError(f"rollout {number} is not complete after {minutes} minutes: a game hangs")
        played = future.result()
        played.waited_seconds = time.perf_counter() - asked
        return played

    def state(self, number: int) -> dict:
        """What a checkpoint needs before rollout `number` is learnt from: the games, the weights that act next, and
        that rollout where it is played already."""
        state = {"newest": self.newest, "newest_version": self.newest_version, "coming": None}
        rollout = self.rollouts[number % len(self.rollouts) - 1]
        if self.coming is not None:
            played = self.coming.result(timeout=60 * self.args.timeout_minutes)
            rollout = played.rollout
            state["coming"] = {
                "observation": {name: torch.from_numpy(array) for name, array in rollout.observation.items()},
                **{name: torch.from_numpy(getattr(rollout, name)) for name in STEP_ARRAYS},
                "episodes": rollout.episodes,
                "invalid_actions": rollout.invalid_actions,
                "passes": [[tensor.cpu() for tensor in step] for step in played.passes],
                "version": played.version,
            }
        return state | save_games(self.envs, rollout)

    def resume(self, state: dict, number: int) -> None:
        """Go on from what `state` returned for this number."""
        coming = state["coming"]
        rollout = self.rollouts[number % len(self.rollouts) - (0 if coming else 1)]
        resume_games(state, self.envs, rollout)
        self.newest_version = state["newest_version"]
        for name, tensor in state["newest"].items():
            self.newest[name].copy_(tensor)
        if coming:
            for name in STEP_ARRAYS:
                getattr(rollout, name)[:] = coming[name].numpy()
            for name, array in rollout.observation.items():
                array[:] = coming["observation"][name].numpy()
            rollout.episodes, rollout.invalid_actions = coming["episodes"], coming["invalid_actions"]
            passes = [ForwardPass(*(tensor.to(self.device) for tensor in step)) for step in coming["passes"]]
            self.coming = Future()
            self.coming.set_result(Played(rollout, passes, coming["version"]))

    def close(self) -> None:
        """Wait for the rollout that nobody needs any more, then end the games."""
        if self.coming is not None:
            wait([self.coming], timeout=60 * self.args.timeout_minutes)
        self.envs.close()


# --- learn -----------------------------------------------------------------------------------------------------------
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


def piece_size(pixels: int, device) -> int:
    """How many observations of so many pixels one pass learns from: as many as a CPU's cache holds; a GPU takes all."""
    return max(16, 2**16 // pixels) if device.type == "cpu" else 2**30


def network_of(agent: nn.Module, args, device):
    """The agent as a function: compiled if asked for, in the precision asked for, its outputs in float32 or better."""
    forward = torch.compile(agent) if args.compile else agent
    if args.precision == "float32":
        return forward
    precision = {"bf16": torch.bfloat16, "fp16": torch.float16}[args.precision]

    def network(observation: dict[str, Tensor]) -> tuple[list[Tensor], Tensor]:
        with torch.autocast(device.type, precision):
            logits, value = forward(observation)
        return [component.float() for component in logits], value.float()

    return network


def passes_of(network, square: Rollout, argument_mask, norm_ent, rows: int, device) -> list[ForwardPass]:
    """What the network says now of the actions of a square, in pieces of so many of its T rows, (rows * B,) each."""
    passes = []
    for t in range(0, len(square.reward), rows):
        piece = slice(t, min(t + rows, len(square.reward)))
        observation = {
            name: torch.from_numpy(array[piece]).flatten(0, 1).to(device) for name, array in square.observation.items()
        }
        logits, value = network(observation)
        action = torch.from_numpy(square.action[piece]).flatten(0, 1).to(device)
        passes.append(ForwardPass(*log_prob_and_entropy(logits, action, argument_mask, norm_ent), value))
    return passes


def accumulate_gradient(passes, returns, advantage, weight, ent_coef, args, unit, scaler) -> Tensor:
    """Add the gradient of the loss to the parameters: a sum over the steps, each with its `weight`.

    returns: the value's targets, counted in `unit`s of reward; advantage: the policy's; all (T, B). Returns policy
    loss, value loss (per squared reward) and entropy, (3,). One piece at a time: small pieces stay in the cache, and
    each frees its graph.
    """
    value_loss = F.mse_loss if args.value_loss == "squared" else F.smooth_l1_loss
    sizes = [len(piece.value) for piece in passes]
    sums = 0.0
    rows = zip(passes, *(tensor.flatten().split(sizes) for tensor in (returns, advantage, weight)), strict=True)
    for (log_prob, entropy, value), target, piece_advantage, share in rows:
        # an action that has become impossible teaches nothing: 0, where 0 * -inf is not a number
        log_prob = log_prob.masked_fill(log_prob == -torch.inf, 0.0)
        pg_loss = -(piece_advantage * log_prob * share).sum()
        v_loss = (value_loss(value / unit, target / unit, reduction="none") * share).sum()
        entropy_bonus = (entropy * share).sum()
        scaler.scale(pg_loss + args.vf_coef * v_loss - ent_coef * entropy_bonus).backward()
        sums = sums + torch.stack([pg_loss, v_loss * unit**2, entropy_bonus]).detach()
    return sums


def learn(network, square, acted, passes, args, ent_coef, scaler, device, ranks) -> tuple[Tensor, float, float]:
    """Add the gradient of a square to the parameters, divided by its number of rows x games.

    acted: the passes that chose its actions; passes: what the network says of them now, which at lag 0 is the same.

    Returns:
        Sums over this rank's steps, (4,): policy loss, value loss, entropy and importance ratio; the number of these
        steps, and of those of all ranks.
    """
    shape = square.reward.shape
    with torch.no_grad():
        value = torch.cat([piece.value for piece in passes]).view(shape)
        now, before = (torch.cat([piece.log_prob for piece in these]).view(shape) for these in (passes, acted))
        last_value = network(square.observe(-1, device))[1]
        next_value = torch.cat([value[1:], last_value[None]])
        arrays = (square.reward, square.terminated, square.truncated, square.valid)
        reward, terminated, truncated, valid = (torch.from_numpy(array).to(device) for array in arrays)
        steps = (reward.to(value), terminated, truncated)
        log_ratio = now - before
        ratio = importance_ratio(log_ratio, args.rho_clip if args.correction == "v_trace" else args.ratio_clamp)
        if args.correction == "v_trace":
            clips = (args.rho_clip, args.c_clip)
            targets, returns = v_trace(*steps, value, next_value, log_ratio, args.gamma, args.gae_lambda, *clips)
        else:
            targets = returns = n_step_returns(*steps, next_value, args.gamma, args.gae_lambda)
        advantage, error = returns - value, targets - value
        used, errors = advantage[valid].double(), error[valid].double()
        sums = torch.stack([valid.sum().double(), used.sum(), (used**2).sum(), (errors**2).sum()]).cpu()
        samples = int(sums[0])
        # each rank for itself, or the same statistics for all
        total, total_sum, squares, error_squares = (ranks.sum(sums) if args.reduce_gradients else sums).tolist()
        if args.norm_adv and total > 1:
            mean = total_sum / total
            advantage = (advantage - mean) / (max(0.0, squares / total - mean**2) ** 0.5 + 1e-8)
        unit = max(1.0, (error_squares / total) ** 0.5) if args.norm_value_loss and total else 1.0
        if args.correction != "none":
            advantage = advantage * ratio

    weight = valid.to(value) / valid.numel()
    losses = accumulate_gradient(passes, targets, advantage, weight, ent_coef, args, unit, scaler)
    sums = torch.cat([losses.double() * valid.numel(), ratio[valid].double().sum()[None]]).cpu()
    return sums, samples, total


def update_weights(agent, optimizer, scaler, size: int, total: float, args, ranks) -> float:
    """One step of the optimizer, with the mean gradient over the `total` steps of all ranks; `size` is what each
    square's gradient has been divided by. Returns the gradient's norm before it was clipped."""
    if args.reduce_gradients:
        average_gradients(agent, size, max(total, 1.0), ranks)
    else:
        for p in agent.parameters():
            if p.grad is not None:
                p.grad *= size / max(total, 1.0)
    scaler.unscale_(optimizer)
    kind = {"l2": 2.0, "inf": math.inf}[args.clip_norm]
    norm = nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm or math.inf, kind).item()
    # with a loss scale, a gradient that overflowed is skipped, and the scale lowered, on all ranks alike
    if not (math.isfinite(norm) or scaler.is_enabled()):
        raise FloatingPointError(
            f"rank {ranks.rank}: an update with gradient norm {norm} was not made; a lower --learning-rate may help"
        )
    if total:  # with nothing to learn from, momentum alone would move the weights
        scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    return norm


class Report:
    """What is told of one update: of the squares that it learns from, and of the rollouts taken since the last one."""

    def __init__(self):
        self.sums = torch.zeros(4, dtype=torch.float64)  # policy loss, value loss, entropy and ratio, over the steps
        self.samples, self.total = 0, 0.0  # steps of this rank; steps that share the gradient
        self.squares = self.lag = self.invalid_actions = 0
        self.episodes: list[tuple[float, int]] = []
        self.play_seconds = self.wait_seconds = self.held_seconds = self.learn_seconds = 0.0

    def add_rollout(self, played: Played) -> None:
        self.episodes += played.rollout.episodes
        self.invalid_actions += played.rollout.invalid_actions
        self.play_seconds += played.seconds
        self.wait_seconds += played.waited_seconds
        self.held_seconds += played.held_seconds

    def add_square(self, sums: Tensor, samples: int, total: float, lag: int) -> None:
        self.sums += sums
        self.samples, self.total = self.samples + samples, self.total + total
        self.squares, self.lag = self.squares + 1, self.lag + lag

    def numbers(self) -> list[float]:
        """To be summed over the ranks."""
        returns, lengths = zip(*self.episodes, strict=True) if self.episodes else ((), ())
        counts = [self.lag / self.squares, self.invalid_actions, len(returns)]
        return [self.samples, *self.sums.tolist(), *counts, sum(returns), sum(lengths)]

    def metrics(self, samples: float, of_steps: list[float], ranks: int) -> dict[str, float]:
        """The seconds are this rank's own."""
        *losses, lag, invalid = of_steps
        policy_loss, value_loss, entropy, ratio = (number / max(samples, 1) for number in losses)
        return {
            "charts/invalid_actions": int(invalid),
            "charts/policy_lag": lag / ranks,
            "losses/policy_loss": policy_loss,
            "losses/value_loss": value_loss,
            "losses/entropy": entropy,
            "losses/importance_ratio": ratio,
            "time/play": self.play_seconds,
            "time/learn": self.learn_seconds,
            "time/wait_for_play": self.wait_seconds,
            "time/hold_play": self.held_seconds,
        }


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


# --- runs and checkpoints --------------------------------------------------------------------------------------------
ALGORITHM = "a2c"  # what a checkpoint is of: other weights would not fit, or mean something else
# the games and the network: an evaluation takes them from the checkpoint; a resumed run cannot change the fixed ones
CHECKPOINT_ARGS = ("env_id", "screen_size", "minimap_size", "step_mul", "hidden_size")
FIXED_ARGS = (*CHECKPOINT_ARGS, "seed", "num_envs", "num_steps", "optimizer", "optimizer_eps", "momentum")
FIXED_ARGS += ("weight_decay", "batch_games", "accumulate", "overlap", "policy_refresh", "max_lag", "reduce_gradients")
FIXED_ARGS += ("precision",)


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


def read_to_resume(path: Path, envs: SC2VectorEnv, size: int) -> bytes:
    """The checkpoint's bytes, if it was made for these games and this number of ranks."""
    checkpoint = run_folder.load_checkpoint(
        path, envs.single_observation_space, envs.single_action_space, resuming=True
    )
    if len(checkpoint["ranks"]) != size:
        raise SystemExit(
            f"{path} holds the games of {len(checkpoint['ranks'])} ranks, but this job has {size}: half-played games "
            f"cannot be dealt out anew. Start as many ranks, for example with torchrun --nproc_per_node"
        )
    return path.read_bytes()


def schedule_of(args) -> Schedule:
    games = args.batch_games or args.num_envs
    return Schedule(args.num_envs // games, args.accumulate, args.policy_refresh, args.overlap, args.max_lag)


def check_args(args, ranks) -> None:
    """Refuse what is impossible before a single game is started."""
    least = dict.fromkeys(("total_timesteps", "num_envs", "num_steps", "step_mul", "hidden_size", "checksum_every"), 1)
    least |= {"checkpoint_every": 1, "keep_checkpoints": 1, "eval_episodes": 0, "screen_size": 16, "minimap_size": 16}
    least |= {"seed": 0, "num_threads": 0, "timeout_minutes": 1e-3, "join_minutes": 1e-3, "max_grad_norm": 0.0}
    least |= {"batch_games": 0, "accumulate": 1, "policy_refresh": 1, "max_lag": 0}
    least |= {"ratio_clamp": 1e-6, "rho_clip": 1e-6, "c_clip": 1e-6}
    for name, value in least.items():
        if getattr(args, name) is not None and getattr(args, name) < value:
            raise SystemExit(f"--{name.replace('_', '-')} {getattr(args, name)}: it has to be at least {value}")
    if args.num_envs % (args.batch_games or args.num_envs):
        raise SystemExit(
            f"--num-envs {args.num_envs} is no multiple of --batch-games {args.batch_games}: games would be left over"
        )
    schedule = schedule_of(args)
    if schedule.squares % args.accumulate and args.accumulate % schedule.squares:
        raise SystemExit(
            f"--accumulate {args.accumulate}: a rollout has {schedule.squares} square batches (--num-envs / "
            f"--batch-games); give a number that divides these, or a multiple of them"
        )
    try:
        schedule.largest_lag()
    except ValueError as error:
        raise SystemExit(
            f"--max-lag {args.max_lag} cannot be kept: --policy-refresh {args.policy_refresh} and {schedule.squares} "
            f"square batches a rollout lead to {error}, even where play waits"
        ) from None
    rollouts = max(1, args.accumulate // schedule.squares)  # from one possible end to the next
    batch = ranks.size * args.num_envs * args.num_steps * rollouts
    if args.total_timesteps < batch and not args.evaluate:
        accumulated = f" x {rollouts} rollouts an update" if rollouts > 1 else ""
        raise SystemExit(
            f"--total-timesteps {args.total_timesteps} is less than one batch ({ranks.size} ranks x {args.num_envs} "
            f"envs x {args.num_steps} steps{accumulated} = {batch}): ask for at least {batch}, or lower --num-envs or "
            f"--num-steps"
        )
    if args.track and not importlib.util.find_spec("wandb"):
        raise SystemExit("--track needs the package wandb: pip install wandb")
    run_folder.check_env_id(args.env_id)


def check_equal_args(args, ranks) -> None:
    """Refuse ranks that were started with other flags than rank 0: they would wait for each other in vain."""
    own = ("rank", "local_rank", "master_addr", "master_port", "num_threads", "runs_dir")
    ours = {name: value for name, value in asdict(args).items() if name not in own}
    theirs = json.loads(ranks.from_first(lambda: json.dumps(ours).encode()))
    differ = [name for name in ours if ours[name] != theirs[name]]
    other = [f"--{name.replace('_', '-')} {ours[name]} (rank 0: {theirs[name]})" for name in differ]
    if any(ranks.any(bool(other))):
        raise SystemExit(f"rank {ranks.rank} was started with {', '.join(other)}" if other else 1)


# --- the program -----------------------------------------------------------------------------------------------------
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


def train(args, device, stop, ranks) -> dict:
    folder, checkpoint_path = (path and Path(path) for path in json.loads(ranks.from_first(find_run, args)))

    # the games, the network, and who plays; a game's number counts over all ranks
    envs = make_envs(args, args.num_envs)
    agent = Agent(envs, args.hidden_size).to(device)
    for tensor in agent.state_dict().values():
        ranks.broadcast(tensor)
    network, optimizer = network_of(agent, args, device), make_optimizer(args, agent.parameters())
    scaler = torch.amp.GradScaler(device.type, enabled=args.precision == "fp16")
    env_indices = range(ranks.rank * args.num_envs, (ranks.rank + 1) * args.num_envs)
    noise_keys = np.array(stream_seeds(args.seed, env_indices, ACTION_NOISE), np.uint64)
    schedule = schedule_of(args)
    actor = Actor(args, schedule, envs, agent, noise_keys, device)
    if checkpoint_path:
        checkpoint = from_bytes(ranks.from_first(read_to_resume, checkpoint_path, envs, ranks.size))
        own = checkpoint["ranks"][ranks.rank]
        counters = resume(checkpoint | own.get("learner", {}), agent, optimizer)
        scaler.load_state_dict(own["scaler"])
        actor.resume(own, counters.env_step // args.num_steps)
        ranks.say(f"continues {checkpoint_path}: {counters.global_step:,} of {args.total_timesteps:,} steps are done")
    else:
        counters = Counters()
        actor.rollouts[-1].start_from(envs.reset(seed=stream_seeds(args.seed, env_indices))[0])

    run, progress = None, None  # of rank 0, which alone writes and shows
    if ranks.first:
        gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
        config = run_folder.describe(asdict(args), args.exp_name, ranks.size, gpu)
        run = start_run(args, folder, config, counters.global_step if checkpoint_path else None)
        progress = run_folder.ProgressLine(args.total_timesteps)
    games = args.num_envs // schedule.squares
    size = games * args.num_steps
    batch = size * args.accumulate
    ranks.say(
        f"{ranks.size} rank(s), launcher {ranks.launcher}, backend {ranks.backend}, {device}; run folder {folder}\n"
        f"games: {args.num_envs} a rank, {args.num_envs * ranks.size} in all; an update: {args.accumulate} square(s) "
        f"of {games} games x {args.num_steps} steps = {batch} a rank, {batch * ranks.size} in all\n"
        f"steps are learnt from by a policy at most {schedule.largest_lag()} update(s) younger than the one that acted"
    )
    argument_mask = torch.tensor(envs.action_set.argument_mask, device=device)
    rows = max(1, piece_size(args.screen_size**2, device) // games)  # of a square that are learnt from at once
    report, mean_return, stopped, late = Report(), None, False, False
    saved_at = counters.update
    clock = time.perf_counter()  # from here on: making the engine and the network is not training
    try:
        # every rank makes the same updates: what ends this loop is the same number, or the same decision, on all
        while report.squares or not (stopped or late or counters.global_step >= args.total_timesteps):
            number = counters.env_step // args.num_steps
            report.add_rollout(played := actor.take(number))
            for k in range(schedule.squares):
                if args.overlap and k == schedule.begins_after(number + 1):
                    actor.begin(number + 1, held=k > 0)
                begun = time.perf_counter()
                left = 1 - counters.global_step / args.total_timesteps
                learning_rate = optimizer.param_groups[0]["lr"] = args.learning_rate * (left if args.anneal_lr else 1)
                ent_coef = args.ent_coef * (left if args.anneal_ent else 1)
                mine = slice(k * games, (k + 1) * games)
                square = square_of(played.rollout, mine)
                acted = played.passes
                if schedule.squares > 1:
                    acted = [ForwardPass(*(tensor[mine] for tensor in step)) for step in acted]
                passes = acted
                if actor.newest:  # another policy may have acted, and kept no graph
                    passes = passes_of(network, square, argument_mask, args.norm_ent, rows, device)
                learnt = learn(network, square, acted, passes, args, ent_coef, scaler, device, ranks)
                report.add_square(*learnt, counters.update - played.version)
                if report.squares == args.accumulate:
                    grad_norm = update_weights(agent, optimizer, scaler, size, report.total, args, ranks)
                    counters.update += 1
                    actor.refresh(counters.update)
                report.learn_seconds += time.perf_counter() - begun
                if report.squares < args.accumulate:
                    continue

                # what rank 0 reports is about the games of all ranks, and a signal to one rank stops all
                late = ranks.first and 0 < 60 * args.max_training_minutes < counters.training_seconds
                flags = [bool(stop.requested) or stopped, late]
                numbers = torch.tensor([*report.numbers(), *flags], dtype=torch.float64)
                samples, *of_steps, episodes, sum_return, sum_length, stopped, late = ranks.sum(numbers).tolist()
                counters.global_step += int(samples)
                now = time.perf_counter()
                counters.training_seconds, clock = counters.training_seconds + now - clock, now
                if args.reduce_gradients and counters.update % args.checksum_every == 0:
                    check_equal_weights(agent, ranks)
                if ranks.first:
                    metrics = {
                        "charts/SPS": counters.global_step / counters.training_seconds,
                        "charts/learning_rate": learning_rate,
                        "charts/ent_coef": ent_coef,
                        "losses/grad_norm": grad_norm,
                        **report.metrics(samples, of_steps, ranks.size),
                    }
                    if args.precision == "fp16":
                        metrics["losses/loss_scale"] = scaler.get_scale()
                    if episodes:  # before the first episode has ended there is no point, rather than NaN
                        mean_return, mean_length = sum_return / episodes, sum_length / episodes
                        metrics |= {"charts/episodic_return": mean_return, "charts/episodic_length": mean_length}
                    run.log(counters.global_step, counters.training_seconds, metrics)
                    progress.show(counters.global_step, metrics["charts/SPS"], mean_return)
                report = Report()
            counters.env_step += args.num_steps
            if not report.squares and counters.update // args.checkpoint_every > saved_at // args.checkpoint_every:
                saved_at = counters.update
                save(run, args, counters, agent, optimizer, scaler, actor, ranks)
        save(run, args, counters, agent, optimizer, scaler, actor, ranks)
        if args.reduce_gradients:
            ranks.say(f"all ranks hold the same weights, checksum {check_equal_weights(agent, ranks):012x}")
        else:
            for tensor in agent.state_dict().values():  # what is evaluated is rank 0's agent
                ranks.broadcast(tensor)
        if ranks.first:
            progress.close()
        evaluation, video_file = {}, None
        if not stopped:
            video_path = folder / "videos" / f"step_{counters.global_step}.mp4"
            evaluation, video_file, stopped = evaluate_and_film(agent, args, video_path, device, stop, ranks)
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
        actor.close()
    return run.result if ranks.first else {}


def save(run, args, counters, agent, optimizer, scaler, actor, ranks) -> None:
    """Write a checkpoint on rank 0, with what each rank has of its own."""
    own = actor.state(counters.env_step // args.num_steps) | {"scaler": scaler.state_dict()}
    if not args.reduce_gradients:
        own["learner"] = {"agent": agent.state_dict(), "optimizer": optimizer.state_dict()}
    of_all = [from_bytes(data) for data in ranks.gather(to_bytes(own))]
    if ranks.first:
        save_checkpoint(run, args, counters, agent, optimizer, actor.envs, of_all)


def evaluate_checkpoint(args, device, stop, ranks) -> dict:
    # the games and the network are the checkpoint's; seed, number of episodes, and a video or not are what is asked now
    saved = json.loads(ranks.from_first(lambda: json.dumps(read_checkpoint(args.evaluate)["args"]).encode()))
    args = replace(args, **{name: saved[name] for name in CHECKPOINT_ARGS})
    envs = make_envs(args, 1)
    checkpoint = from_bytes(ranks.from_first(read_to_evaluate, args.evaluate, envs))
    agent = Agent(envs, args.hidden_size).to(device)
    agent.load_state_dict(checkpoint["agent"])
    envs.close()
    global_step = checkpoint["global_step"]
    video_path = Path(args.evaluate).parent.parent / "videos" / f"step_{global_step}.mp4"
    evaluation, video_file, _ = evaluate_and_film(agent, args, video_path, device, stop, ranks)
    return {"evaluation": evaluation, "video": video_file, "checkpoint": args.evaluate, "env_steps": global_step}


if __name__ == "__main__":
    main(tyro.cli(Args))
    # Gloo's threads outlive their process group, and now and then crash an interpreter that is being taken down
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
