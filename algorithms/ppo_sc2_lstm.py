"""Proximal policy optimisation with a memory, an LSTM, on StarCraft II mini-games, over any number of processes.

    torchrun --standalone --nproc_per_node=2 algorithms/ppo_sc2_lstm.py --env-id SC2MoveToBeacon-v0
    srun --ntasks=8 python algorithms/ppo_sc2_lstm.py
    python algorithms/ppo_sc2_lstm.py --evaluate runs/<run>/checkpoints/<checkpoint>.pt

ppo_sc2_multigpu.py whose network remembers, in the manner of CleanRL's ppo_atari_lstm.py. What a game has shown since
its episode began stays in the state of an LSTM. Learning goes over whole sequences, all steps of a rollout of some
games, so a minibatch holds games instead of steps. Which games it holds, as the games themselves, weights and action
noise, is a function of the seed and of the game's number in the whole job alone.
Docs: docs/algorithms/ppo_lstm.md
"""

import hashlib
import importlib.util
import io
import itertools
import json
import math
import os
import sys
import time
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
    """games that each rank plays side by side"""
    num_steps: int = 32
    """steps of each game between two updates, and the length of the sequences that gradients go back through"""
    update_epochs: int = 3
    """how often an update goes over its batch"""
    num_minibatches: int = 4
    """minibatches of one epoch; each holds as many games, with all their steps"""
    clip_coef: float = 0.2
    """the surrogate clipping coefficient"""
    clip_vloss: bool = False
    """if toggled, the value's change is clipped too, as in the paper's code"""
    target_kl: float | None = None
    """the KL divergence, over all ranks, after which an update makes no further epoch"""
    hidden_size: int = 128
    """width of the network's dense layer"""
    lstm_size: int = 128
    """how many numbers the LSTM remembers of each game"""
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
SHUFFLE = (4,)


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
    """Two convolutions over the screen, two over the minimap, a dense layer, an LSTM; a head for the value, for the
    function and for each argument, which has an output of its own for every function that takes it. Spatial heads are
    1x1 convolutions whose weights come from the LSTM: a pixel's logit comes from what is seen around that pixel and
    from what is remembered, and a little more where a unit is seen."""

    def __init__(self, envs: SC2VectorEnv, hidden_size: int = 128, lstm_size: int = 128, pooled: int = 4):
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
        self.lstm = nn.LSTM(hidden_size, lstm_size)
        for name, parameter in self.lstm.named_parameters():
            if "bias" in name:
                nn.init.zeros_(parameter)
            else:
                nn.init.orthogonal_(parameter)
        self.value = layer_init(nn.Linear(lstm_size, 1), std=1.0)
        self.function = layer_init(nn.Linear(lstm_size, len(action_set.functions)), std=0.01)
        self.argument, self.attraction = nn.ModuleDict(), nn.ParameterDict()
        functions = action_set.argument_mask.sum(0)  # that take each argument
        for name, count, size in zip(self.arguments, functions, action_set.nvec[1:], strict=True):
            if name in SPATIAL_ARGUMENTS:
                # weights of a 1x1 convolution, of each function; no bias: the same more for every pixel changes nothing
                head = nn.Linear(lstm_size, 32 * int(count))
                # what to click on is a unit more often than not: at first, e^3 = 20 times as often as another pixel
                self.attraction[name] = nn.Parameter(torch.full((int(count), 1), 3.0))
            else:
                head = nn.Linear(lstm_size, int(count * size))
            self.argument[name] = layer_init(head, std=0.01)
        self.to(memory_format=torch.channels_last)

    def start_state(self, games: int) -> Tensor:
        """What is remembered when an episode begins: nothing. The hidden state and the cell's, (2, games, L)."""
        return self.value.weight.new_zeros(2, games, self.lstm.hidden_size)

    def forward(
        self, observation: dict[str, Tensor], state: Tensor, begins: Tensor
    ) -> tuple[list[Tensor], Tensor, Tensor]:
        """Logits and values of T steps of B games: N = T x B observations, step after step.

        state: (2, B, L), the LSTM's before the first of these steps
        begins: (T, B) bool, on the CPU, True where an episode begins: what has been remembered is of another one

        Returns:
            The logits of the functions, (N, F), -inf for illegal ones, followed by those of each argument,
            (N, functions that take it, size of the argument); the values, (N,); and the state after the last step.
        """
        # the LSTM goes over all games at once, all else over few observations, which stay in a CPU's cache
        size = piece_size(observation["feature_screen"][0, 0].numel(), state.device)
        names, rows = observation.keys(), zip(*(tensor.split(size) for tensor in observation.values()), strict=True)
        pieces = [dict(zip(names, tensors, strict=True)) for tensors in rows]
        seen, features = zip(*map(self.see, pieces), strict=True)
        memory, state = self.remember(torch.cat(features).unflatten(0, begins.shape), state, begins)
        logits, values = zip(*map(self.decide, pieces, seen, memory.flatten(0, 1).split(size)), strict=True)
        return [torch.cat(component) for component in zip(*logits, strict=True)], torch.cat(values), state

    def see(self, observation: dict[str, Tensor]) -> tuple[dict[str, Tensor], Tensor]:
        """Of each observation by itself: what screen and minimap show, (N, 32, H, W), and the LSTM's input, (N, D)."""
        dtype = self.value.weight.dtype
        vector = torch.cat([observation["player"].to(dtype), observation["available_actions"].to(dtype)], 1)
        seen, features = {}, [vector]
        for name in ("screen", "minimap"):
            first, second = self.convolutions[name]
            x = F.relu_(first(self.planes[name](observation[f"feature_{name}"], dtype)))
            # a bias a channel: the same as concatenating the vector's entries as constant planes, for free
            seen[name] = F.relu_(second(x).add_(self.broadcast[name](vector)[:, :, None, None]))
            summary = F.adaptive_avg_pool2d(seen[name], self.pooled)
            features.append(summary.permute(0, 2, 3, 1).flatten(1))  # in the order of its memory: no copy
        return seen, F.relu(self.dense(torch.cat(features, 1)))

    def remember(self, features: Tensor, state: Tensor, begins: Tensor) -> tuple[Tensor, Tensor]:
        """The LSTM's outputs, (T, B, L), and its state after T steps. As few calls as there are steps at which an
        episode begins: a call of the LSTM knows no resets, but goes over many steps at once."""
        resets = [t for t in range(1, len(begins)) if begins[t].any()]
        outputs = []
        # in full precision always: rounding would add up over the steps
        with torch.autocast(features.device.type, enabled=False):
            for first, end in itertools.pairwise([0, *resets, len(begins)]):
                state = state.masked_fill(begins[first, :, None].to(state.device), 0.0)
                output, after = self.lstm(features[first:end].to(state.dtype), (state[:1], state[1:]))
                state = torch.cat(after)
                outputs.append(output)
        return torch.cat(outputs), state

    def decide(self, observation: dict[str, Tensor], seen: dict[str, Tensor], memory: Tensor):
        """Logits and values, from what is seen, and from the LSTM's outputs, (N, L)."""
        logits = [self.function(memory).masked_fill(~observation["available_actions"].bool(), -torch.inf)]
        for name, size in zip(self.arguments, self.sizes, strict=True):
            output = self.argument[name](memory)
            if name in SPATIAL_ARGUMENTS:
                place = "minimap" if name == "minimap" else "screen"
                shows_unit = observation[f"feature_{place}"][:, self.owner[place]].flatten(1)[:, None] > 0
                points = output.unflatten(1, (-1, 32)) @ seen[place].flatten(2)
                logits.append(points + self.attraction[name] * shows_unit)
            else:
                logits.append(output.unflatten(1, (-1, size)))
        return logits, self.value(memory)[:, 0]


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
    begins: (T + 1, B) bool, where an observation is the first of its episode
    first_state, state: (2, B, L), the LSTM's before the first step and after the last one
    episodes: (return, length) of those that ended in this rollout
    invalid_actions: how many actions of this rollout the game refused
    """

    def __init__(self, envs: SC2VectorEnv, num_steps: int, start_state: Tensor):
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
        self.begins = np.ones((num_steps + 1, envs.num_envs), bool)
        self.first_state = self.state = start_state
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
    """What the network said when it chose the actions of one step, (B,) each."""

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
    rollout.begins[0], rollout.first_state = rollout.begins[-1], rollout.state
    passes = []
    for t in range(len(rollout.reward)):
        check_rows(rollout, t, env_step)
        begins = torch.from_numpy(rollout.begins[t : t + 1])
        logits, value, rollout.state = agent(rollout.observe(t, device), rollout.state, begins)
        noise = torch.from_numpy(uniforms(noise_keys, env_step + t, len(logits))).to(device)
        action = sample_actions(logits, noise, argument_mask)
        passes.append(ForwardPass(*log_prob_and_entropy(logits, action, argument_mask, norm_ent), value))

        rollout.action[t] = action.cpu()
        out = {name: array[t + 1] for name, array in rollout.observation.items()}
        _, reward, terminated, truncated, info = envs.step(rollout.action[t], out=out)
        rollout.reward[t], rollout.terminated[t], rollout.truncated[t] = reward, terminated, truncated
        rollout.valid[t], rollout.begins[t + 1] = ~rollout.ended, rollout.ended  # a reset shows a new episode
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
def piece_size(pixels: int, device) -> int:
    """How many observations of so many pixels one pass learns from: as many as a CPU's cache holds; a GPU takes all."""
    return max(16, 2**16 // pixels) if device.type == "cpu" else 2**30


def network_of(agent: nn.Module, args, device):
    """The agent as a function: compiled if asked for, in the precision asked for, its outputs in float32 or better."""
    forward = torch.compile(agent) if args.compile else agent
    if args.precision == "float32":
        return forward
    precision = {"bf16": torch.bfloat16, "fp16": torch.float16}[args.precision]

    def network(observation: dict[str, Tensor], state: Tensor, begins: Tensor) -> tuple[list[Tensor], Tensor, Tensor]:
        with torch.autocast(device.type, precision):
            logits, value, state = forward(observation, state, begins)
        return [component.float() for component in logits], value.float(), state

    return network


def minibatches(shuffle_keys: np.ndarray, epoch: int, number: int) -> list[np.ndarray]:
    """The games that each minibatch of an epoch holds: of every `number` consecutive ones it is one.

    Which one depends on the number in the job of the first of them and on the epoch's in the run, so the minibatches of
    all ranks together are the same however the games are spread over them.
    """
    order = uniforms(shuffle_keys[::number], epoch, number).argsort(1)
    return list((number * np.arange(len(order))[:, None] + order).T)


class Targets(NamedTuple):
    """What the epochs of an update need of each step that was played, (T, B) each."""

    log_prob: Tensor  # of the action, by the policy that chose it
    value: Tensor
    returns: Tensor
    advantage: Tensor
    valid: Tensor


class Learner:
    """The network, its optimizer, and the updates that all ranks make together."""

    def __init__(self, agent: Agent, argument_mask: Tensor, shuffle_keys: np.ndarray, args, ranks: Ranks):
        self.agent, self.argument_mask, self.shuffle_keys = agent, argument_mask, shuffle_keys
        self.args, self.ranks, self.device = args, ranks, argument_mask.device
        self.network = network_of(agent, args, self.device)
        self.optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=args.precision == "fp16")
        self.value_loss = F.mse_loss if args.value_loss == "squared" else F.smooth_l1_loss

    def learn(self, rollout: Rollout, passes, update: int, ent_coef: float) -> tuple[dict[str, float], int, int]:
        """Update number `update`: some epochs over the rollouts of all ranks.

        Returns:
            The metrics of the losses, means over all steps of all ranks and epochs; the number of steps of all ranks;
            and that of epochs.
        """
        targets, unit, explained_variance = self.targets(rollout, passes)
        number, first = self.args.num_minibatches, update * self.args.update_epochs
        epochs = [minibatches(self.shuffle_keys, first + k, number) for k in range(self.args.update_epochs)]
        # how many steps count in each minibatch is known before: one collective sums them all over the ranks
        counts = [[int(rollout.valid[:, games].sum()) for games in parts] for parts in epochs]
        totals = self.ranks.sum(torch.tensor(counts, dtype=torch.float64))
        sums, norms = torch.zeros(6, dtype=torch.float64), []
        made = 0
        for parts, of_all in zip(epochs, totals.tolist(), strict=True):
            of_epoch = torch.zeros_like(sums)
            for games, total in zip(parts, of_all, strict=True):
                self.optimizer.zero_grad()
                of_epoch += self.add_gradient(rollout, games, targets, unit, ent_coef)
                norms.append(self.step(games.size * len(rollout.reward), total))
            sums += self.ranks.sum(of_epoch)
            made += 1
            # every rank goes on or none: one that stopped alone would leave the others waiting for it, or they would
            # average gradients of different minibatches
            if self.args.target_kl is not None and of_epoch[4] > self.args.target_kl * sum(of_all):
                break
        names = ("policy_loss", "value_loss", "entropy", "old_approx_kl", "approx_kl", "clipfrac")
        means = (sums / totals[:made].sum().clamp(min=1)).tolist()
        metrics = {f"losses/{name}": mean for name, mean in zip(names, means, strict=True)}
        if finite := [norm for norm in norms if math.isfinite(norm)]:  # with fp16 some overflow, and are skipped
            metrics["losses/grad_norm"] = float(np.mean(finite))
        if explained_variance is not None:
            metrics["losses/explained_variance"] = explained_variance
        return metrics, int(totals[0].sum()), made

    @torch.no_grad()
    def targets(self, rollout: Rollout, passes) -> tuple[Targets, float, float | None]:
        """The targets, with advantages normalised over all ranks; the unit that errors of the value count in; and the
        share of the returns' variance that the values explain, None where all returns are equal."""
        args = self.args
        log_prob, value = (torch.stack([getattr(step, name) for step in passes]) for name in ("log_prob", "value"))
        begins = torch.from_numpy(rollout.begins)
        last_value = self.network(rollout.observe(-1, self.device), rollout.state, begins[-1:])[1]
        next_value = torch.cat([value[1:], last_value[None]])
        arrays = (rollout.reward, rollout.terminated, rollout.truncated, rollout.valid)
        reward, terminated, truncated, valid = (torch.from_numpy(array).to(self.device) for array in arrays)
        returns = n_step_returns(reward.to(value), terminated, truncated, next_value, args.gamma, args.gae_lambda)
        advantage = returns - value

        errors, used = advantage[valid].double(), returns[valid].double()
        sums = torch.stack([valid.sum(), errors.sum(), (errors**2).sum(), used.sum(), (used**2).sum()])
        total, *sums = self.ranks.sum(sums.cpu()).tolist()
        mean, square, return_mean, return_square = (number / max(total, 1) for number in sums)
        variance, return_variance = max(0.0, square - mean**2), max(0.0, return_square - return_mean**2)
        if args.norm_adv and total > 1:
            advantage = (advantage - mean) / (variance**0.5 + 1e-8)
        unit = max(1.0, square**0.5) if args.norm_value_loss else 1.0
        explained_variance = 1 - variance / return_variance if return_variance else None
        return Targets(log_prob, value, returns, advantage, valid), unit, explained_variance

    def add_gradient(self, rollout: Rollout, games: np.ndarray, targets: Targets, unit: float, ent_coef) -> Tensor:
        """Add the gradient of the loss over all steps of some games to the parameters: the sum over the valid ones,
        divided by the number of them all.

        Returns sums over the valid ones, (6,): policy loss, value loss (per squared reward), entropy, two estimates of
        the KL divergence, and how many were clipped. Some games at a time, or large minibatches would fill the memory.
        """
        args, sums = self.args, torch.zeros(6, dtype=torch.float64)
        num_steps = len(rollout.reward)
        size = num_steps * games.size
        pieces = math.ceil(size / (512 if self.device.type == "cpu" else 4096))
        for some in np.array_split(games, min(pieces, len(games))):
            observation = {
                name: torch.from_numpy(array[:num_steps, some]).flatten(0, 1).to(self.device)
                for name, array in rollout.observation.items()
            }
            action = torch.from_numpy(rollout.action[:, some]).flatten(0, 1).to(self.device)
            begins = torch.from_numpy(rollout.begins[:num_steps, some])
            logits, value, _ = self.network(observation, rollout.first_state[:, some], begins)
            log_prob, entropy = log_prob_and_entropy(logits, action, self.argument_mask, args.norm_ent)
            old_log_prob, old_value, returns, advantage, valid = (tensor[:, some].flatten() for tensor in targets)
            log_ratio = log_prob - old_log_prob
            ratio = log_ratio.exp()
            clipped = ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
            pg_loss = torch.max(-advantage * ratio, -advantage * clipped)
            v_loss = self.value_loss(value / unit, returns / unit, reduction="none")
            if args.clip_vloss:
                near = old_value / unit + ((value - old_value) / unit).clamp(-args.clip_coef, args.clip_coef)
                v_loss = torch.max(v_loss, self.value_loss(near, returns / unit, reduction="none"))
            loss = (pg_loss + args.vf_coef * v_loss - ent_coef * entropy)[valid].sum()
            self.scaler.scale(loss / size).backward()
            with torch.no_grad():
                # http://joschu.net/blog/kl-approx.html
                old_approx_kl, approx_kl = -log_ratio, ratio - 1 - log_ratio
                is_clipped = ((ratio - 1).abs() > args.clip_coef).to(ratio)
                numbers = (pg_loss, v_loss * unit**2, entropy, old_approx_kl, approx_kl, is_clipped)
                sums += torch.stack([number[valid].double().sum() for number in numbers]).cpu()
        return sums

    def step(self, size: int, total: float) -> float:
        """One step of the optimizer, with the mean gradient over the `total` steps of all ranks; `size` is what this
        rank's gradient has been divided by. Returns the gradient's norm before it was clipped."""
        average_gradients(self.agent, size, max(total, 1.0), self.ranks)
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self.agent.parameters(), self.args.max_grad_norm or math.inf).item()
        # with a loss scale, a gradient that overflowed is skipped, and the scale lowered, on all ranks alike
        if not (math.isfinite(norm) or self.scaler.is_enabled()):
            raise FloatingPointError(
                f"rank {self.ranks.rank}: an update with gradient norm {norm} was not made; a lower --learning-rate "
                "may help"
            )
        if total:  # with nothing to learn from, momentum alone would move the weights
            self.scaler.step(self.optimizer)
        self.scaler.update()
        return norm


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
    state, begins, ended = agent.start_state(len(episodes)), np.ones(len(episodes), bool), np.zeros(len(episodes), bool)
    returns, running, step = np.zeros(len(episodes)), np.full(len(episodes), bool(own)), 0
    # every rank takes part until the last one is done, since to stop is decided together
    anyone_plays, stopped = ranks.any(bool(running.any()), bool(stop.requested))
    while anyone_plays and not stopped:
        tensors = {name: torch.from_numpy(array).to(device) for name, array in observation.items()}
        logits, _, state = agent(tensors, state, torch.from_numpy(begins[None]))
        noise = None if greedy else torch.from_numpy(uniforms(noise_keys, step, len(logits))).to(device)
        action = sample_actions(logits, noise, argument_mask).cpu().numpy()
        observation, reward, terminated, truncated, info = envs.step(action)
        # what follows is the first observation of an episode after a reset, and of a game that was lost
        begins, ended = ended | info["game_restarted"], terminated | truncated
        returns += reward * running
        returns[info["game_restarted"]] = 0  # a game that was lost is no episode: it plays another one
        running &= ~ended | info["game_restarted"]
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
    frames, ended, state = [env.render()], False, agent.start_state(1)
    while not ended:
        tensors = {name: torch.from_numpy(array[None]).to(device) for name, array in observation.items()}
        logits, _, state = agent(tensors, state, torch.zeros(1, 1, dtype=torch.bool))
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
ALGORITHM = "ppo_lstm"  # what a checkpoint is of: other weights would not fit, or mean something else
# the games and the network: an evaluation takes them from the checkpoint; a resumed run cannot change the fixed ones
CHECKPOINT_ARGS = ("env_id", "screen_size", "minimap_size", "step_mul", "hidden_size", "lstm_size")
FIXED_ARGS = (*CHECKPOINT_ARGS, "seed", "num_envs", "num_steps", "precision")


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
    """The games half played, what they last showed, and what is remembered of them. The action noise needs no state:
    env_step counts it."""
    return {
        "envs": torch.frombuffer(bytearray(envs.get_state()), dtype=torch.uint8),
        "observation": {name: torch.tensor(array[-1]) for name, array in rollout.observation.items()},
        "ended": torch.tensor(rollout.ended),
        "begins": torch.tensor(rollout.begins[-1]),
        "state": rollout.state.cpu(),
        "torch_random_state": torch.get_rng_state(),
    }


def resume_games(games: dict, envs: SC2VectorEnv, rollout: Rollout) -> None:
    """The games go on where `save_games` left them."""
    envs.set_state(games["envs"].numpy().tobytes())
    rollout.start_from({name: tensor.numpy() for name, tensor in games["observation"].items()})
    rollout.ended[:] = games["ended"].numpy()
    rollout.begins[-1] = games["begins"].numpy()
    rollout.state = games["state"].to(rollout.state.device)
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


def check_args(args, ranks) -> None:
    """Refuse what is impossible before a single game is started."""
    least = dict.fromkeys(("total_timesteps", "num_envs", "num_steps", "step_mul", "hidden_size", "checksum_every"), 1)
    least |= {"checkpoint_every": 1, "keep_checkpoints": 1, "eval_episodes": 0, "screen_size": 16, "minimap_size": 16}
    least |= {"seed": 0, "num_threads": 0, "timeout_minutes": 1e-3, "join_minutes": 1e-3, "max_grad_norm": 0.0}
    least |= {"lstm_size": 1, "update_epochs": 1, "num_minibatches": 1, "clip_coef": 1e-6, "target_kl": 0.0}
    for name, value in least.items():
        if getattr(args, name) is not None and getattr(args, name) < value:
            raise SystemExit(f"--{name.replace('_', '-')} {getattr(args, name)}: it has to be at least {value}")
    if args.num_envs % args.num_minibatches and not args.evaluate:
        raise SystemExit(
            f"--num-envs {args.num_envs} is no multiple of --num-minibatches {args.num_minibatches}: every minibatch "
            f"holds as many games, with all their steps"
        )
    batch = ranks.size * args.num_envs * args.num_steps
    if args.total_timesteps < batch and not args.evaluate:
        raise SystemExit(
            f"--total-timesteps {args.total_timesteps} is less than one batch ({ranks.size} ranks x {args.num_envs} "
            f"envs x {args.num_steps} steps = {batch}): ask for at least {batch}, or lower --num-envs or --num-steps"
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

    # the games, the network, the storage; a game's number counts over all ranks
    envs = make_envs(args, args.num_envs)
    agent = Agent(envs, args.hidden_size, args.lstm_size).to(device)
    for tensor in agent.state_dict().values():
        ranks.broadcast(tensor)
    env_indices = range(ranks.rank * args.num_envs, (ranks.rank + 1) * args.num_envs)
    noise_keys, shuffle_keys = (
        np.array(stream_seeds(args.seed, env_indices, branch), np.uint64) for branch in (ACTION_NOISE, SHUFFLE)
    )
    argument_mask = torch.tensor(envs.action_set.argument_mask, device=device)
    learner = Learner(agent, argument_mask, shuffle_keys, args, ranks)
    rollout = Rollout(envs, args.num_steps, agent.start_state(args.num_envs))
    if checkpoint_path:
        checkpoint = from_bytes(ranks.from_first(read_to_resume, checkpoint_path, envs, ranks.size))
        counters = resume(checkpoint, agent, learner.optimizer)
        learner.scaler.load_state_dict(checkpoint["ranks"][ranks.rank]["scaler"])
        resume_games(checkpoint["ranks"][ranks.rank], envs, rollout)
        ranks.say(f"continues {checkpoint_path}: {counters.global_step:,} of {args.total_timesteps:,} steps are done")
    else:
        counters = Counters()
        rollout.start_from(envs.reset(seed=stream_seeds(args.seed, env_indices))[0])

    run, progress = None, None  # of rank 0, which alone writes and shows
    if ranks.first:
        gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
        config = run_folder.describe(asdict(args), args.exp_name, ranks.size, gpu)
        run = start_run(args, folder, config, counters.global_step if checkpoint_path else None)
        progress = run_folder.ProgressLine(args.total_timesteps)
    batch = args.num_envs * args.num_steps
    ranks.say(
        f"{ranks.size} rank(s), launcher {ranks.launcher}, backend {ranks.backend}, {device}; run folder {folder}\n"
        f"games: {args.num_envs} a rank, {args.num_envs * ranks.size} in all; an update: {args.num_envs} games x "
        f"{args.num_steps} steps = {batch} a rank, {batch * ranks.size} in all, {args.update_epochs} times in "
        f"{args.num_minibatches} minibatches"
    )
    mean_return, stopped, late = None, False, False
    clock = time.perf_counter()  # from here on: making the engine and the network is not training
    try:
        # every rank makes the same updates: what ends this loop is the same number, or the same decision, on all
        while counters.global_step < args.total_timesteps and not stopped and not late:
            left = 1 - counters.global_step / args.total_timesteps
            learning_rate = args.learning_rate * (left if args.anneal_lr else 1)
            learner.optimizer.param_groups[0]["lr"] = learning_rate
            ent_coef = args.ent_coef * (left if args.anneal_ent else 1)

            begun = time.perf_counter()
            with torch.no_grad():
                passes = play(envs, learner.network, rollout, noise_keys, counters.env_step, device, args.norm_ent)
            played = time.perf_counter()
            losses, samples, epochs = learner.learn(rollout, passes, counters.update, ent_coef)
            learnt = time.perf_counter()

            # what rank 0 reports is about the games of all ranks, and a signal to one rank stops all
            returns, lengths = zip(*rollout.episodes, strict=True) if rollout.episodes else ((), ())
            late = ranks.first and 0 < 60 * args.max_training_minutes < counters.training_seconds
            local = [rollout.invalid_actions, len(returns), sum(returns), sum(lengths), bool(stop.requested), late]
            invalid, episodes, sum_return, sum_length, stopped, late = ranks.sum(torch.tensor(local).double()).tolist()

            counters.update += 1
            counters.env_step += args.num_steps
            counters.global_step += samples
            now = time.perf_counter()
            counters.training_seconds, clock = counters.training_seconds + now - clock, now
            if counters.update % args.checksum_every == 0:
                check_equal_weights(agent, ranks)
            if ranks.first:
                metrics = {
                    "charts/SPS": counters.global_step / counters.training_seconds,
                    "charts/learning_rate": learning_rate,
                    "charts/ent_coef": ent_coef,
                    "charts/invalid_actions": int(invalid),
                    "charts/epochs": epochs,
                    **losses,
                    "time/play": played - begun,
                    "time/learn": learnt - played,
                }
                if args.precision == "fp16":
                    metrics["losses/loss_scale"] = learner.scaler.get_scale()
                if episodes:  # before the first episode has ended there is no point, rather than NaN
                    mean_return, mean_length = sum_return / episodes, sum_length / episodes
                    metrics |= {"charts/episodic_return": mean_return, "charts/episodic_length": mean_length}
                run.log(counters.global_step, counters.training_seconds, metrics)
                progress.show(counters.global_step, metrics["charts/SPS"], mean_return)
            if counters.update % args.checkpoint_every == 0:
                save(run, args, counters, learner, envs, rollout, ranks)
        save(run, args, counters, learner, envs, rollout, ranks)
        ranks.say(f"all ranks hold the same weights, checksum {check_equal_weights(agent, ranks):012x}")
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
        envs.close()
    return run.result if ranks.first else {}


def save(run, args, counters, learner, envs, rollout, ranks) -> None:
    """Write a checkpoint on rank 0, with the games of all ranks."""
    own = save_games(envs, rollout) | {"scaler": learner.scaler.state_dict()}
    of_all = [from_bytes(data) for data in ranks.gather(to_bytes(own))]
    if ranks.first:
        save_checkpoint(run, args, counters, learner.agent, learner.optimizer, envs, of_all)


def evaluate_checkpoint(args, device, stop, ranks) -> dict:
    # the games and the network are the checkpoint's; seed, number of episodes, and a video or not are what is asked now
    saved = json.loads(ranks.from_first(lambda: json.dumps(read_checkpoint(args.evaluate)["args"]).encode()))
    args = replace(args, **{name: saved[name] for name in CHECKPOINT_ARGS})
    envs = make_envs(args, 1)
    checkpoint = from_bytes(ranks.from_first(read_to_evaluate, args.evaluate, envs))
    agent = Agent(envs, args.hidden_size, args.lstm_size).to(device)
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
