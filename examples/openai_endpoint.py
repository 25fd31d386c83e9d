"""A served model: prompts ranked before anyone trains, and rollouts collected with a curriculum.

vllm serve Qwen/Qwen2.5-0.5B-Instruct --port 8000
vllm serve Qwen/Qwen2.5-0.5B-Instruct --port 8001 --runner pooling --convert embed
python examples/openai_endpoint.py Qwen/Qwen2.5-0.5B-Instruct http://localhost:8000 http://localhost:8001
"""

import json
import sys
import urllib.request

import metis

ROWS = [{"prompt": f"What is {a} * {b}?", "answer": a * b} for a in range(99) for b in range(99)]


def score(reply, reference, row):
    return float(str(reference) in reply)


def rank(model, server, pooling, rows=ROWS, **settings):
    """Every prompt with its expected variance, best first, after rollouts of some of them."""
    return metis.judge(
        model, rows, reward=score, server=server, pooling=pooling, show=False, **settings
    ).ranking


def collect(model, server, curriculum, steps=20, rows=ROWS, **settings):
    """Groups of rollouts with mixed rewards, and how many were rolled out to find them."""
    selector = metis.Selector(rows, curriculum, batch=16, group=8, steps=steps, **settings)
    mixed, count = [], 0
    for _ in range(steps):
        for pick in selector.propose():
            replies = answers(model, server, pick.prompt["prompt"], pick.n)
            rewards = [score(reply, pick.prompt["answer"], pick.prompt) for reply in replies]
            selector.observe(pick.id, rewards)
            count += 1
            if 0 < sum(rewards) < len(rewards):
                mixed.append({**pick.prompt, "replies": replies, "rewards": rewards})
    return mixed, count


def answers(model, server, text, n):
    chat = [{"role": "user", "content": text}]
    body = json.dumps({"model": model, "messages": chat, "n": n, "max_tokens": 64}).encode()
    header = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{server}/v1/chat/completions", body, header)
    with urllib.request.urlopen(request) as reply:
        return [choice["message"]["content"] or "" for choice in json.load(reply)["choices"]]


if __name__ == "__main__":
    model, server, pooling = sys.argv[1:4]
    for line in rank(model, server, pooling)[:10]:
        print(f"{line['expected_variance']:.3f} {ROWS[line['row'] - 1]['prompt']}")
    readout = {"preset": "readout", "judge": {"layer": 1.0}, "ask": pooling}
    for name, settings in (("uniform", {}), ("metis", readout)):
        mixed, count = collect(model, server, name, **settings)
        print(f"{name}: {len(mixed)} of {count} groups had mixed rewards")
