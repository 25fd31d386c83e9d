"""A curriculum in a training loop of one's own: in plain PyTorch, a small policy learns remainders.

python examples/own_loop.py
"""

import torch
from torch.nn.functional import one_hot

import metis

ROWS = [{"prompt": f"({a} + {b}) % 8", "a": a, "b": b} for a in range(20) for b in range(20)]
KNOWN = 3  # the policy can only answer 0, 1 or 2: on most prompts all of its rollouts fail


def train(curriculum, steps=100):
    torch.manual_seed(0)
    policy = torch.nn.Sequential(
        torch.nn.Linear(40, 64), torch.nn.ReLU(), torch.nn.Linear(64, KNOWN)
    )
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.001)
    selector = metis.Selector(ROWS, curriculum, batch=16, group=8, steps=steps)
    mixed, rollouts = 0, 0
    for _ in range(steps):
        losses = []
        for pick in selector.propose():
            row = pick.prompt  # as it was given
            asked = one_hot(torch.tensor([row["a"], row["b"]]), 20).float().flatten()
            answers = torch.distributions.Categorical(logits=policy(asked))
            sampled = answers.sample((pick.n,))
            rewards = (sampled == (row["a"] + row["b"]) % 8).float()
            if selector.observe(pick.id, rewards.tolist()):
                advantages = rewards - rewards.mean()
                losses.append(-(advantages * answers.log_prob(sampled)).mean())
            mixed, rollouts = mixed + int(0 < rewards.mean() < 1), rollouts + 1
        if losses:
            optimizer.zero_grad()
            torch.stack(losses).mean().backward()
            optimizer.step()
    return mixed / rollouts


if __name__ == "__main__":
    for name in ("uniform", "mopps"):
        print(f"{name:8} {train(name):.0%} of the groups had mixed rewards")
