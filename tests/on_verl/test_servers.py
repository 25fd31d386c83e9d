"""Judging through rollout servers: what is asked of them, and what is made of the answers."""

import asyncio
import math
from collections import Counter
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import ray
from omegaconf import OmegaConf
from verl.workers.rollout.replica import TokenOutput

from integration.conftest import byte_tokenizer
from metis import MetisError
from metis.core import Sampling
from metis.curricula.judge import Judge
from metis.curricula.judge.prompt import Example
from metis.curricula.judge.scale import PASSES, VARIANCE
from metis.engines.verl.engine import encoder
from metis.engines.verl.servers import Servers

CHATS = [[{"role": "user", "content": text}] for text in ("one", "two, longer")]
CHOICES = ("0.00", "0.05", "0.1")


class Client:
    """A server whose log-probability of a token is -(its id) / 100, whatever came before."""

    def __init__(self, version=3, tokens=(65, 66), servers=("first", "second")):
        self.version, self.tokens, self.asked = version, tokens, []
        self.servers = dict.fromkeys(servers)

    async def generate(self, request_id, *, prompt_ids, sampling_params):
        await asyncio.sleep(0)
        self.asked.append(SimpleNamespace(id=request_id, prompt=prompt_ids, **sampling_params))
        tokens = sampling_params.get("logit_bias") or self.tokens
        tokens = list(tokens)[: sampling_params["max_tokens"]]
        return TokenOutput(
            token_ids=tokens,
            log_probs=[-token / 100 for token in tokens],
            stop_reason="completed",
            extra_fields={"global_steps": self.version},
        )


def servers(client, context=100, **rollout):
    settings = {"name": "vllm", "logprobs_mode": "raw_logprobs", **rollout}
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": settings}, "data": {}})
    return Servers(client, byte_tokenizer(), config, context)


def test_choices_are_scored_by_forcing_what_they_do_not_share():
    client = Client()
    desk = servers(client)
    rows = desk.score(CHATS, CHOICES, version=3)
    tokens = [desk.encode_reply(choice) for choice in CHOICES]
    expected = [-sum(choice) / 100 for choice in tokens]
    for row in rows:
        assert row == pytest.approx(expected)
    nodes = {tuple(choice[: i + 1]) for choice in tokens for i in range(len(choice))}
    assert len(client.asked) == len(CHATS) * len(nodes)
    assert {asked.max_tokens for asked in client.asked} == {1}
    assert {bias for asked in client.asked for bias in asked.logit_bias.values()} == {100.0}
    context = desk.encode_chat(CHATS[0])
    mine = [asked for asked in client.asked if asked.prompt[: len(context)] == context]
    forced = {(*asked.prompt[len(context) :], *asked.logit_bias) for asked in mine}
    assert forced == nodes
    assert len({asked.id for asked in mine}) == 1, "one chat, one server, one prefix cache"


@pytest.mark.parametrize(
    ("scale", "requests"),
    [(VARIANCE, len(r"\boxed{0.") + 3 + 11), (PASSES, 9)],
    ids=["variance", "passes"],
)
def test_the_answers_of_both_scales_are_scored(scale, requests):
    """Eleven that share a beginning and then one of three digits; nine of one token each."""
    client = Client()
    desk = servers(client, context=500)
    rows = desk.score(CHATS, scale.choices, version=3)
    tokens = [desk.encode_reply(choice) for choice in scale.choices]
    for row in rows:
        assert row == pytest.approx([-sum(choice) / 100 for choice in tokens])
    assert len(client.asked) == len(CHATS) * requests
    if scale is PASSES:
        assert {len(choice) for choice in tokens} == {1}
        contexts = [desk.encode_chat(chat) for chat in CHATS]
        assert all(asked.prompt in contexts for asked in client.asked)
    room = min(map(len, map(desk.encode_chat, CHATS))) + max(map(len, tokens))
    tight = servers(client, context=room).score(CHATS, scale.choices, version=3)
    assert tight == [rows[0], [-math.inf] * len(tokens)], "the last token needs room"


def test_chats_are_dealt_to_the_servers():
    chats = [[{"role": "user", "content": f"What is {i}?"}] for i in range(7)]
    client = Client(servers="abc")
    desk = servers(client)
    desk.complete(chats, Sampling(2), 3)
    assert Counter(asked.id for asked in client.asked) == {"a": 3, "b": 2, "c": 2}
    client.asked.clear()
    desk.score(chats, CHOICES, 3)
    dealt = Counter()
    for context in map(desk.encode_chat, chats):
        (server,) = {asked.id for asked in client.asked if asked.prompt[: len(context)] == context}
        dealt[server] += 1
    assert dealt == {"a": 3, "b": 2, "c": 2}


def test_what_judge_prompts_share_is_encoded_once(monkeypatch):
    chats = Judge().chats([f"What is {i} + 2?" for i in range(20)], [Example("1 + 1?", 0.1)])
    client = Client()
    desk = servers(client, context=10_000)
    wanted = [desk.encode_chat(chat) for chat in chats]
    rendered = Mock(wraps=desk.tokenizer.apply_chat_template)
    monkeypatch.setattr(desk.tokenizer, "apply_chat_template", rendered)
    desk.complete(chats, Sampling(2), 3)
    assert [asked.prompt for asked in client.asked] == wanted
    desk.score(chats, ("0", "1"), 3)
    assert [encoder(desk)(chat, "1")[0] for chat in chats] == wanted
    assert rendered.call_count < 10


def test_a_chat_that_does_not_fit_says_nothing():
    client = Client()
    long = [{"role": "user", "content": "x" * 200}]
    desk = servers(client)
    assert desk.score([long], CHOICES, 3) == [[-math.inf] * 3]
    (reply,) = desk.complete([long], Sampling(max_tokens=5), 3)
    assert (reply.text, reply.finish, reply.trajectory.loss_mask.any()) == ("", "length", False)
    assert client.asked == []


@pytest.mark.parametrize(
    ("tokens", "limit", "finish"),
    [((65, 66), 3, "stop"), ((65, 66, 67), 3, "length"), ((65, 66, 256), 3, "stop")],
)
def test_a_reply_within_its_limit_or_with_the_end_is_whole(tokens, limit, finish):
    assert byte_tokenizer().eos_token_id == 256
    desk = servers(Client(tokens=tokens))
    (reply,) = desk.complete(CHATS[:1], Sampling(limit, temperature=0.7, stop=("\n",)), 3)
    assert reply.finish == finish
    assert reply.text == byte_tokenizer().decode(tokens, skip_special_tokens=True) != ""
    trajectory = reply.trajectory
    assert trajectory.tokens[trajectory.loss_mask].tolist() == list(tokens)
    assert trajectory.logprobs[trajectory.loss_mask].tolist() == pytest.approx(
        [-token / 100 for token in tokens]
    )
    asked = desk.client.asked[0]
    assert (asked.temperature, asked.stop, asked.logprobs) == (0.7, ["\n"], True)


def test_a_long_prompt_leaves_less_room():
    desk = servers(Client(), context=50)
    desk.complete(CHATS[:1], Sampling(max_tokens=45), 3)
    assert desk.client.asked[0].max_tokens == 50 - len(desk.encode_chat(CHATS[0]))


def test_old_weights_are_not_judged_with():
    with pytest.raises(RuntimeError, match="weights of step 2, the actor those of step 3"):
        servers(Client(version=2)).complete(CHATS, Sampling(2), 3)


@pytest.mark.parametrize("fields", [{}, {"global_steps": None}])
def test_a_server_that_does_not_say_its_weights_is_not_judged_with(fields):
    client = Client()
    told = client.generate

    async def generate(*arguments, **options):
        output = await told(*arguments, **options)
        output.extra_fields = fields
        return output

    client.generate = generate
    with pytest.raises(RuntimeError, match="weights of step None"):
        servers(client).complete(CHATS, Sampling(2), 3)


def test_a_reply_that_was_aborted_ends_the_step():
    with pytest.raises(RuntimeError, match="gave no reply"):
        servers(Client(tokens=())).complete(CHATS, Sampling(2), 3)


def test_processed_logprobs_are_refused():
    with pytest.raises(MetisError, match="logprobs_mode = 'processed_logprobs'"):
        servers(Client(), logprobs_mode="processed_logprobs").score(CHATS, CHOICES, 3)


def test_a_server_that_does_not_force_tokens_is_refused():
    client = Client()
    free = client.generate

    async def generate(request_id, *, prompt_ids, sampling_params):
        sampling_params.pop("logit_bias")
        return await free(request_id, prompt_ids=prompt_ids, sampling_params=sampling_params)

    client.generate = generate
    with pytest.raises(MetisError, match="does not force tokens"):
        servers(client, name="sglang").score(CHATS, CHOICES, 3)


def test_a_server_that_died_is_the_error():
    client = Client()

    async def generate(*_, **options):
        raise ray.exceptions.ActorDiedError

    client.generate = generate
    with pytest.raises(MetisError, match=r"a rollout server died \(ActorDiedError\)"):
        servers(client).score(CHATS, CHOICES, 3)
