"""Episodes of several turns in verl's agent loops: the same tokens as on the local engine."""

import asyncio
import json
import math
from types import SimpleNamespace

import pytest
from verl.experimental.agent_loop import agent_loop
from verl.utils.dataset.rl_dataset import RLHFDataset

import own_task
from composing import composed
from integration.conftest import byte_tokenizer, save_tiny
from metis import config as configuration
from metis.core import Sampling
from metis.engines.local.generate.sampling import SampledReply
from metis.engines.local.model.policy import Policy
from metis.engines.local.rollouts import play
from metis.engines.local.settings import LocalSettings
from metis.engines.rewards import RewardRunner
from metis.engines.tokens.packing import prefilled
from metis.engines.verl import episodes
from metis.engines.verl.launch.from_recipe import AGENT_LOOP, overrides
from metis.engines.verl.servers import rollouts
from metis.engines.verl.servers.rollouts import Output
from metis.engines.verl.servers.said import FAILURE, transcript
from metis.errors import MetisError
from metis.run.folder import RunFolder

REWRITES = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' and not loop.last %}(cut){% else %}{{ m.content }}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SAID = ["20 + 1", "I give up", "no, 50", "77", "100"]


class Servers:
    """Says what it is told to, turn after turn, within the tokens it is given."""

    def __init__(self, tokenizer, said):
        self.tokenizer, self.said, self.asked = tokenizer, list(said), []

    async def generate(self, request_id, prompt_ids, sampling_params):
        self.asked.append((request_id, list(prompt_ids), sampling_params["max_tokens"]))
        text = self.said[len(self.asked) - 1]
        tokens = [*self.tokenizer(text)["input_ids"], self.tokenizer.eos_token_id]
        tokens = tokens[: sampling_params["max_tokens"]]
        versions = {"global_steps": 3, "min_global_steps": 3, "max_global_steps": 3}
        return SimpleNamespace(
            token_ids=tokens, log_probs=[-0.5] * len(tokens), extra_fields=versions
        )


@pytest.fixture
def recipe(tmp_path):
    """A run of the guessing game of the examples, as verl's workers find it."""

    def make(*words):
        usual = ["engine=verl", "engine.model=m", "task=own_task:GuessingGames"]
        found = configuration.load_config(None, [*usual, "engine.max_tokens=40", *words])
        with RunFolder.open(tmp_path / "run", found.resolved):
            pass
        return found

    return make


def looped(found, out, servers):
    verl = composed(overrides(found, out, "m"))
    wrapped = agent_loop.DictConfigWrap
    return episodes.EpisodeLoop(
        trainer_config=wrapped(config=verl),
        server_manager=servers,
        tokenizer=servers.tokenizer,
        processor=None,
        dataset_cls=RLHFDataset,
        data_config=wrapped(config=verl.data),
    )


def rolled(found, out, servers, prompt):
    async def run():
        loop = looped(found, out, servers)
        return await loop.run({"temperature": 1.0}, extra_info={"id": prompt.id})

    return asyncio.run(run())


def hopeless(task):
    """A game that nothing said here wins."""
    return next(each for each in task.training() if int(each.id[6:]) in range(30, 40))


def test_a_task_of_several_turns_is_played_by_our_loop(recipe, tmp_path):
    verl = composed(overrides(recipe(), tmp_path / "run", "m"))
    assert verl.actor_rollout_ref.rollout.agent.default_agent_loop == AGENT_LOOP
    one_turn = configuration.load_config(None, ["engine=verl", "engine.model=m", "task=arithmetic"])
    verl = composed(overrides(one_turn, tmp_path / "run", "m"))
    assert verl.actor_rollout_ref.rollout.agent.default_agent_loop == "single_turn_agent"
    episodes.register_loop()
    assert AGENT_LOOP in agent_loop._agent_loop_registry


def test_the_rollout_is_the_local_engine_s(recipe, tmp_path):
    found = recipe("engine.episode_tokens=400")
    prompt = hopeless(found.task)
    servers = Servers(byte_tokenizer(), SAID)
    output = rolled(found, tmp_path / "run", servers, prompt)
    folder = save_tiny(tmp_path / "tiny")
    policy = Policy(folder, LocalSettings(model=str(folder), device="cpu"))
    turns = iter(SAID)

    def script(prompts, copies, sampling):
        tokens = [*policy.encode_reply(next(turns)), policy.tokenizer.eos_token_id]
        return enumerate([SampledReply(tokens, [-0.5] * len(tokens), "stop")])

    rewards = RewardRunner(30)
    [group], _ = play(policy, found.task, [prompt], 1, Sampling(40), script, rewards, 1, version=3)
    rewards.close()
    [trajectory] = group.trajectories
    assert output.prompt_ids + output.response_ids == trajectory.tokens.tolist()
    mask = [0] * len(output.prompt_ids) + output.response_mask
    assert mask == trajectory.loss_mask.astype(int).tolist()
    assert output.response_logprobs == trajectory.logprobs[len(output.prompt_ids) :].tolist()
    assert (output.reward_score,) == group.rewards
    assert output.num_turns == 2 * len(SAID)
    assert output.extra_fields["min_global_steps"] == output.extra_fields["max_global_steps"] == 3


def test_total_tokens_are_counted_as_on_the_local_engine(recipe, tmp_path):
    """With vLLM there: two rollouts of one prompt, the second of which says more in each turn."""
    found = recipe("engine.episode_tokens=400")
    folder = save_tiny(tmp_path / "tiny")
    policy = Policy(folder, LocalSettings(model=str(folder), device="cpu"))
    turns, counted = iter(SAID), []

    def script(prompts, copies, sampling):
        said = next(turns)
        replies = [policy.encode_reply(said + " or so" * number) for number in range(2)]
        counted.append(prefilled(prompts) + sum(map(len, replies)))
        return enumerate(SampledReply(tokens, [-0.5] * len(tokens), "stop") for tokens in replies)

    rewards = RewardRunner(30)
    prompt = hopeless(found.task)
    [group], _ = play(policy, found.task, [prompt], 2, Sampling(40), script, rewards, 2, version=3)
    rewards.close()
    outputs = {i: [Output(t, 0.0, False, {}, [], {})] for i, t in enumerate(group.trajectories)}
    assert len(counted) == len(SAID)
    assert rollouts._processed({"one": outputs}) == sum(counted)


def test_each_turn_begins_with_all_tokens_before_it(recipe, tmp_path):
    found = recipe("engine.episode_tokens=400")
    servers = Servers(byte_tokenizer(), SAID)
    output = rolled(found, tmp_path / "run", servers, hopeless(found.task))
    whole = output.prompt_ids + output.response_ids
    assert len({request for request, _, _ in servers.asked}) == 1
    for _, tokens, limit in servers.asked:
        assert tokens == whole[: len(tokens)] and limit <= 40


def test_a_rollout_ends_within_its_tokens_and_is_rewarded_as_it_stands(recipe, tmp_path):
    found = recipe("engine.episode_tokens=60")
    servers = Servers(byte_tokenizer(), SAID)
    output = rolled(found, tmp_path / "run", servers, hopeless(found.task))
    assert len(servers.asked) == 2 and len(output.response_ids) <= 60
    assert output.response_mask[-1] == 1 and output.reward_score == 0.0


def failing(*_):
    raise ValueError("no number")


@pytest.mark.parametrize(("method", "turns"), [("reply", 1), ("reward", len(SAID))])
def test_an_episode_that_raises_is_kept_up_to_there_and_failed(
    recipe, tmp_path, monkeypatch, method, turns
):
    found = recipe("engine.episode_tokens=400")
    monkeypatch.setattr(own_task.GuessingGame, method, failing)
    servers = Servers(byte_tokenizer(), SAID)
    output = rolled(found, tmp_path / "run", servers, hopeless(found.task))
    assert math.isnan(output.reward_score) and sum(output.response_mask) > 0
    about = output.extra_fields["reward_extra_info"]
    told = transcript(output.extra_fields, [], [], output.reward_score, {}, 9, False)
    assert told.reward is None and told.failure == about[FAILURE]
    assert told.failure.startswith("ValueError: no number (")
    spoken = [turn["content"] for turn in told.said if turn["role"] == "assistant"]
    assert spoken == SAID[:turns] and told.asked[-1]["role"] == "user"


def test_a_template_that_rewrites_earlier_turns_fails_its_rollout_alone(recipe, tmp_path):
    found = recipe("engine.episode_tokens=400")
    prompt, servers = hopeless(found.task), Servers(byte_tokenizer(), SAID)
    servers.tokenizer.chat_template = REWRITES
    output = rolled(found, tmp_path / "run", servers, prompt)
    about = output.extra_fields["reward_extra_info"]
    assert math.isnan(output.reward_score) and "rewrites earlier turns" in about[FAILURE]
    assert sum(output.response_mask) > 0, "its first turn is kept"
    once = Servers(byte_tokenizer(), [str(int(prompt.id[6:]))])
    once.tokenizer.chat_template = REWRITES
    assert rolled(found, tmp_path / "run", once, prompt).reward_score == 1.0


def test_an_episode_that_cannot_begin_is_dropped_by_verl(recipe, tmp_path):
    found = recipe("engine.episode_tokens=400")
    servers = Servers(byte_tokenizer(), [])
    with pytest.raises(IndexError):
        rolled(found, tmp_path / "run", servers, hopeless(found.task))


def test_less_room_for_an_episode_than_for_an_answer_is_refused(recipe):
    with pytest.raises(MetisError, match=r"engine.episode_tokens = 20: use at least engine.max"):
        recipe("engine.episode_tokens=20")


def test_a_task_may_be_described_without_a_run(tmp_path):
    from metis.engines.verl.reward import loaded_task

    described = json.loads('{"name": "own_task:GuessingGames", "tests": 5}')
    task = loaded_task(task=described)
    assert len(task.task.heldout()) == 5 and task.longest > 10**6
    assert task.episode({"id": "guess:33"}).secret == 33
