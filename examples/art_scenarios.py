"""A curriculum in ART (OpenPipe): it proposes the scenarios of a step, and gathering observes.

WANDB_API_KEY=... python examples/art_scenarios.py OpenPipe/Qwen3-14B-Instruct

openpipe-art 0.5.18 with openai 2 (it does not work with openai 3). Gathering runs with its classes
in `make test-trainers`; its training, on a GPU or a service, was not tried.
"""

import asyncio
import pickle
import sys
from pathlib import Path

import art

import metis

SCENARIOS = [
    {"prompt": f"What is {a} * {b}?", "answer": a * b} for a in range(99) for b in range(99)
]
STATE = Path("runs/art-selector.pickle")


async def rollout(model, scenario):
    chat = [{"role": "user", "content": scenario["prompt"]}]
    made = await model.openai_client().chat.completions.create(
        model=model.get_inference_name(), messages=chat, max_tokens=32
    )
    [choice] = made.choices
    right = (choice.message.content or "").strip() == str(scenario["answer"])
    return art.Trajectory(messages_and_choices=[*chat, choice], reward=float(right))


async def gather(selector, model):
    """The groups of a step that are to be trained on."""

    async def observe(group):
        rewards = [trajectory.reward for trajectory in group]
        return group if selector.observe(group.metadata["pick"], rewards) else None

    return await art.gather_trajectory_groups(
        (
            art.TrajectoryGroup(
                (rollout(model, pick.prompt) for _ in range(pick.n)), metadata={"pick": pick.id}
            )
            for pick in selector.propose()
        ),
        after_each=observe,
        max_exceptions=0.1,  # of the rollouts of a step; they have failed, and the rest counts
    )


async def train(base_model, steps=100):
    from art.serverless.backend import ServerlessBackend

    model = art.TrainableModel(name="metis", project="products", base_model=base_model)
    backend = ServerlessBackend()
    await model.register(backend)
    selector = metis.Selector(SCENARIOS, "mopps", batch=16, group=8, steps=steps)
    if begun := await model.get_step():
        selector.load_state_dict(pickle.loads(STATE.read_bytes()))
    for _ in range(begun, steps):
        groups = await gather(selector, model)
        result = await backend.train(model, groups, learning_rate=1e-5)
        await model.log(groups, split="train", metrics=result.metrics, step=result.step)
        STATE.parent.mkdir(exist_ok=True)
        STATE.write_bytes(pickle.dumps(selector.state_dict()))


if __name__ == "__main__":
    asyncio.run(train(sys.argv[1]))
