"""The TorchRL samplers of mr.torchrl against TorchRL's own, as somebody meets them who only puts another sampler in.

Every sampler gives as many rows to the same learner, from the same seed. `RandomSampler` draws with replacement,
`SamplerWithoutReplacement` shuffles every pass, and with shuffle=False goes through the record in order.
Four tasks:

- ``td``: a fixed policy on CartPole, 16,384 stored steps, a value network (4-64-64-1) by TD(0) with Adam, γ = 0.95,
  batches of 64; the root mean square error at 256 states against Monte Carlo (200 episodes from each), after 1 pass
  and after 5.
- ``dqn``: DQN on CartPole, 10,000 steps, one update every two steps, a memory of 5,000; the return of the greedy
  policy (at most 500), averaged over tests at steps 5,000, 6,000, …, 10,000, and at the end.
- ``linear``: a linear value function of four slow signals (autoregressive, one over e after 1000 rows), 16,384 rows,
  γ = 0.95, plain TD(0) steps on batches of 64, one pass; the root mean square distance to LSTD of the same record, in
  standard deviations of its values, after 64 steps and after the pass. Every sampler has its own best step, chosen by
  the end of the pass on five other seeds.
- ``part``: the first 256 rows given of that record instead of all of it: how far their mean reward is from the mean of
  the record, in standard deviations of a reward, and how far their LSTD is from that of the record, as above.

Finished runs are kept in benchmarks/torchrl_samplers.csv and not run again; the table has means and standard errors.
Usage: python benchmarks/torchrl_samplers.py [--tasks td dqn linear part] [--seeds 0 1 2 3 4] [--samplers Dyadic Random]
       [--seconds 50]
"""

from __future__ import annotations

import argparse
import csv
import itertools
import logging
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from scipy.signal import lfilter
from tensordict import TensorDict
from torch import nn
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import RandomSampler, SamplerWithoutReplacement

import multireplay as mr
from multireplay.show.text import TextTable

FILE = Path(__file__).with_suffix(".csv")
COLUMNS = ("task", "sampler", "seed", "step", "first", "last")
SAMPLERS: dict[str, Callable[[], Any]] = {
    "Random": RandomSampler,
    "WithoutReplacement": SamplerWithoutReplacement,
    "in order": lambda: SamplerWithoutReplacement(shuffle=False),
    "Dyadic": mr.torchrl.DyadicSampler,
    "Multiscale": mr.torchrl.MultiscaleSampler,
}
MEASURES = {
    "td": "error of the value network after 1 and 5 passes",
    "dqn": "greedy return in the second half and at the end",
    "linear": "distance to LSTD after 64 and 256 steps",
    "part": "error of the mean reward and of LSTD from the first 256 rows given",
}
BATCH, ROWS, PART = 64, 2**14, 256
SLOW, SLOW_GAMMA, SLOW_STEPS, TUNING = 1000, 0.95, (0.3, 0.6, 1.0, 1.5), range(100, 105)
GAMMA, TESTED, EPISODES = 0.95, 256, 200
DQN_STEPS, DQN_GAMMA, MEMORY, EXPLORED, EVERY, TARGET_EVERY, TEST_EVERY = 10_000, 0.99, 5_000, 3_000, 4, 200, 1_000


def batches(rows: dict[str, Any], sampler: str, passes: int) -> Iterator[Any]:
    """Batches of one record until as many rows were given as so many passes have; a sampler that ends begins anew."""
    tensors = {name: torch.as_tensor(np.asarray(column, dtype=np.float32)) for name, column in rows.items()}
    memory = TensorDictReplayBuffer(storage=LazyTensorStorage(ROWS), sampler=SAMPLERS[sampler](), batch_size=BATCH)
    memory.extend(TensorDict(tensors, [ROWS]))
    given = 0
    while given < passes * ROWS:
        batch = memory.sample()
        given += len(batch)
        yield given, batch


def network(outputs: int) -> nn.Module:
    """Two hidden layers of 64."""
    return nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


def half_careful(states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The policy that is evaluated: against the fall three times in four, about 50 steps an episode."""
    careful = states[..., 2] + 0.5 * states[..., 3] > 0
    return np.where(rng.random(states.shape[:-1]) < 0.75, careful, ~careful).astype(int)


def record_of(seed: int, steps: int) -> mr.rl.Trajectory:
    return mr.rl.collect("CartPole-v1", lambda state, rng: int(half_careful(state, rng)), steps=steps, seed=seed)


@cache
def true_values() -> tuple[torch.Tensor, np.ndarray]:
    """States that the policy meets, and their values by Monte Carlo: all episodes side by side."""
    states = record_of(seed=10_000, steps=20 * TESTED).observations[::20]
    rng = np.random.default_rng(0)
    many = gymnasium.make_vec("CartPole-v1", num_envs=TESTED * EPISODES, vectorization_mode="vector_entry_point")
    many.reset(seed=0)
    many.unwrapped.state = np.repeat(states, EPISODES, axis=0).T.astype(np.float64)
    seen, alive = np.repeat(states, EPISODES, axis=0), np.ones(TESTED * EPISODES, dtype=bool)
    total, discount = np.zeros(TESTED * EPISODES), 1.0
    while alive.any() and discount > 1e-4:
        seen, _, ended, _, _ = many.step(half_careful(seen, rng))
        total += discount * alive
        alive &= ~ended
        discount *= GAMMA
    return torch.as_tensor(states), total.reshape(TESTED, EPISODES).mean(axis=1)


def evaluate_by_network(sampler: str, seed: int) -> tuple[float, float, float]:
    """Task td."""
    record = record_of(seed, ROWS)
    columns = {"s": record.observations, "t": record.next_observations, "r": record.rewards, "end": record.terminated}
    states, truth = true_values()
    value, step = network(1), 3e-3
    optimizer = torch.optim.Adam(value.parameters(), lr=step)
    errors = {}
    for given, batch in batches(columns, sampler, passes=5):
        with torch.no_grad():
            wanted = batch["r"] + GAMMA * (1 - batch["end"]) * value(batch["t"])[:, 0]
        loss = (value(batch["s"])[:, 0] - wanted).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if given // ROWS > len(errors):
            with torch.no_grad():
                errors[given // ROWS] = float(np.sqrt(np.mean((value(states)[:, 0].numpy() - truth) ** 2)))
    return step, errors[1], errors[5]


def greedy_return(values: nn.Module, seed: int) -> float:
    """Mean return of 20 episodes."""
    many = gymnasium.make_vec("CartPole-v1", num_envs=20, vectorization_mode="vector_entry_point")
    seen, alive, total = many.reset(seed=seed)[0], np.ones(20, dtype=bool), np.zeros(20)
    while alive.any():
        with torch.no_grad():
            seen, _, ended, cut, _ = many.step(values(torch.as_tensor(seen)).argmax(dim=1).numpy())
        total += alive
        alive &= ~(ended | cut)
    return float(total.mean())


def learn_to_balance(sampler: str, seed: int) -> tuple[float, float, float]:
    """Task dqn."""
    step, rng, env = 1e-3, np.random.default_rng(seed), gymnasium.make("CartPole-v1")
    values, target = network(2), network(2)
    target.load_state_dict(values.state_dict())
    optimizer = torch.optim.Adam(values.parameters(), lr=step)
    memory = TensorDictReplayBuffer(storage=LazyTensorStorage(MEMORY), sampler=SAMPLERS[sampler](), batch_size=BATCH)
    state, rows, tests, updates = env.reset(seed=seed)[0], [], [], 0
    for t in range(1, DQN_STEPS + 1):
        if rng.random() < max(0.05, 1 - t / EXPLORED):
            action = int(rng.integers(2))
        else:
            with torch.no_grad():
                action = int(values(torch.as_tensor(state)).argmax())
        after, reward, ended, cut, _ = env.step(action)
        rows.append((state, action, reward, after, float(ended)))
        state = env.reset()[0] if ended or cut else after
        if t % EVERY == 0:
            columns = [torch.as_tensor(np.array(column)) for column in zip(*rows, strict=True)]
            memory.extend(TensorDict(dict(zip("sarte", columns, strict=True)), [EVERY]))
            rows = []
            for _ in range(EVERY // 2 if t >= 500 else 0):
                batch = memory.sample()
                with torch.no_grad():
                    best = target(batch["t"]).max(dim=1).values
                    wanted = (batch["r"] + DQN_GAMMA * (1 - batch["e"]) * best).float()
                chosen = values(batch["s"]).gather(1, batch["a"][:, None])[:, 0]
                loss = nn.functional.smooth_l1_loss(chosen, wanted)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                updates += 1
                if updates % TARGET_EVERY == 0:
                    target.load_state_dict(values.state_dict())
        if t % TEST_EVERY == 0 and 2 * t >= DQN_STEPS:
            tests.append(greedy_return(values, seed=1000 + t))
    return step, float(np.mean(tests)), tests[-1]


class SlowRecord:
    """Four slow signals, a reward that is no linear function of them, and LSTD on them."""

    def __init__(self, seed: int) -> None:
        rng, rho = np.random.default_rng(seed), np.exp(-1 / SLOW)
        noise = rng.standard_normal((ROWS + 1, 4))
        noise[1:] *= np.sqrt(1 - rho**2)
        signals = lfilter([1.0], [1.0, -rho], noise, axis=0)
        features = np.column_stack([np.ones(ROWS + 1), signals])
        self.features, rewards = (
            features[:-1],
            np.sin(2 * signals[:, 0]) + signals[:, 1] + signals[:, 2] * signals[:, 3],
        )
        self.rows = {"s": features[:-1], "t": features[1:], "r": rewards[:-1]}
        self.values = self.features @ lstd(self.rows)

    def distance(self, x: np.ndarray) -> float:
        return float(np.sqrt(np.mean((self.features @ x - self.values) ** 2)) / self.values.std())


def lstd(rows: dict[str, np.ndarray]) -> np.ndarray:
    now, after = np.asarray(rows["s"], dtype=np.float64), np.asarray(rows["t"], dtype=np.float64)
    return np.linalg.solve(now.T @ (now - SLOW_GAMMA * after), now.T @ np.asarray(rows["r"], dtype=np.float64))


def slow_pass(sampler: str, seed: int, step: float) -> tuple[float, float]:
    """One pass of task linear."""
    record, x, distances = SlowRecord(seed), torch.zeros(5), []
    for _, batch in batches(record.rows, sampler, passes=1):
        difference = batch["r"] + SLOW_GAMMA * batch["t"] @ x - batch["s"] @ x
        x = x + step * batch["s"].T @ difference / len(difference)
        distances.append(record.distance(x.numpy()))
    return distances[63], distances[-1]


@cache
def best_step(sampler: str) -> float:
    torch.manual_seed(0)
    return min(SLOW_STEPS, key=lambda step: np.mean([slow_pass(sampler, seed, step)[1] for seed in TUNING]))


def evaluate_linearly(sampler: str, seed: int) -> tuple[float, float, float]:
    """Task linear."""
    step = best_step(sampler)
    return step, *slow_pass(sampler, seed, step)


def learn_from_a_part(sampler: str, seed: int) -> tuple[str, float, float]:
    """Task part."""
    record, taken = SlowRecord(seed), []
    for given, batch in batches(record.rows, sampler, passes=1):
        taken.append(batch)
        if given >= PART:
            break
    part = {name: torch.cat([batch[name] for batch in taken])[:PART].numpy() for name in record.rows}
    rewards = record.rows["r"]
    return "", abs(part["r"].mean() - rewards.mean()) / rewards.std(), record.distance(lstd(part))


TASKS = {"td": evaluate_by_network, "dqn": learn_to_balance, "linear": evaluate_linearly, "part": learn_from_a_part}


def table(task: str, runs: list[dict[str, str]]) -> TextTable:
    """Means over the seeds with their standard errors."""
    lines = []
    for sampler in SAMPLERS:
        found = [run for run in runs if (run["task"], run["sampler"]) == (task, sampler)]
        if len(found) < 2:
            continue
        line = {"sampler": sampler, "seeds": len(found), "step": "/".join(sorted({run["step"] for run in found}))}
        for name in ("first", "last"):
            values = np.array([float(run[name]) for run in found])
            line[name] = f"{values.mean():.3g} ± {values.std(ddof=1) / np.sqrt(len(values)):.2g}"
        lines.append(line)
    return TextTable(lines, title=f"{task}: {MEASURES[task]}")


def page_table(runs: list[dict[str, str]]) -> str:
    """What docs/api/torchrl.md shows, in Markdown."""
    shown = {
        ("td", "first"): "value network on CartPole, error after 1 pass",
        ("td", "last"): "after 5 passes",
        ("dqn", "first"): "DQN on CartPole, return",
        ("linear", "last"): "slow signals, linear, one pass: distance to LSTD",
        ("part", "first"): "mean reward from 256 rows, error",
        ("part", "last"): "LSTD from 256 rows, distance",
    }
    rows = {(task, row["sampler"]): row for task in TASKS for row in table(task, runs).rows}
    lines = [["sampler", *shown.values()], ["---"] * (1 + len(shown))]
    lines += [
        [sampler, *(rows.get((task, sampler), {}).get(name, "–") for task, name in shown)] for sampler in SAMPLERS
    ]
    counts = {task: [row["seeds"] for (of, _), row in rows.items() if of == task] for task in TASKS}
    lines.append(["seeds", *(str(min(counts[task], default=0)) for task, _ in shown)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    """Run what is asked for and is not there yet, then print the tables of all there is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="*", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--seeds", nargs="*", type=int, default=list(range(5)))
    parser.add_argument("--samplers", nargs="*", choices=list(SAMPLERS), default=list(SAMPLERS))
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin no run after that")
    given = parser.parse_args()
    begun = time.monotonic()
    torch.set_num_threads(1)
    logging.getLogger("torchrl").setLevel(logging.WARNING)
    kept = list(csv.DictReader(FILE.open(newline=""))) if FILE.exists() else []
    there = {(run["task"], run["sampler"], int(run["seed"])) for run in kept}
    with FILE.open("a", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        if not kept:
            writer.writerow(COLUMNS)
        for task, seed, sampler in itertools.product(given.tasks, given.seeds, given.samplers):
            if (task, sampler, seed) in there or (task, sampler) == ("dqn", "in order"):
                continue  # in order has no meaning in a memory that is filled meanwhile
            if time.monotonic() - begun > given.seconds:
                break
            torch.manual_seed(seed)
            step, *found = TASKS[task](sampler, seed)
            print(f"{task}, {sampler}, seed {seed}: done after {time.monotonic() - begun:.0f} s", flush=True)
            writer.writerow([task, sampler, seed, step, *(f"{value:.5g}" for value in found)])
            opened.flush()
    runs = list(csv.DictReader(FILE.open(newline="")))
    for task in TASKS:
        print(table(task, runs))
    print(page_table(runs))


if __name__ == "__main__":
    main()
