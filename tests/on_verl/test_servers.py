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
from metis.curricula.judges.prompt import turns
from metis.curricula.judges.scale import PASSES, VARIANCE
from metis.engines.tokens.encoding import encode_scored
from metis.engines.verl.servers import in_server
from metis.engines.verl.servers.judging import Servers
from scripted import exemplar

CHATS = [[{"role": "user", "content": text}] for text in ("one", "two, longer")]
CHOICES = ("0.00", "0.05", "0.1")


class Server:
    """An actor whose log-probability of a token is -(its id) / 100, whatever came before."""

    def __init__(self, version=3, error=None):
        self.global_steps, self.error, self.asked, self.calls = version, error, [], []
        self.__ray_call__ = SimpleNamespace(remote=self._call)

    async def _call(self, function, *arguments):
        self.calls.append(function)
        await asyncio.sleep(0)
        if self.error:
            raise self.error
        return function(self, *arguments)

    async def score(self, question):
        """Some questions take longer than others."""
        self.asked.append(question)
        for _ in range(len(question.prompt) % 3):
            await asyncio.sleep(0)
        return [-token / 100 for token in question.tokens]


async def through_server(server):
    return server.score


@pytest.fixture(autouse=True)
def scoring(monkeypatch):
    """Servers of these tests stand in for vLLM's."""
    backend = in_server.Backend(through_server, lambda server: asyncio.get_running_loop())
    monkeypatch.setitem(in_server.BACKENDS, "vllm", backend)
    monkeypatch.setattr("metis.engines.verl.servers.judging.BETWEEN_LOOKS", 0.0)


class Client:
    """Servers that can be asked for replies as well."""

    def __init__(self, version=3, tokens=(65, 66), servers=("first", "second")):
        self.version, self.tokens, self.asked = version, tokens, []
        self.servers = {name: Server(version) for name in servers}

    @property
    def questions(self):
        return [question for server in self.servers.values() for question in server.asked]

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


def servers(client, context=100, row=math.inf, **rollout):
    settings = {"name": "vllm", **rollout}
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": settings}, "data": {}})
    return Servers(client, byte_tokenizer(), config, context, row)


def given_the_stem(desk, choices, stem):
    """The servers' log-probabilities of choices without their first tokens."""
    return [-sum(desk.encode_reply(choice)[stem:]) / 100 for choice in choices]


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_choices_are_scored_given_what_all_of_them_begin_with(name):
    """From inside a server, or where that cannot be by forcing tokens."""
    client = Client()
    desk = servers(client, name=name)
    rows = desk.score(CHATS, CHOICES, version=3)
    assert len(rows) == len(CHATS)
    for row in rows:
        assert row == pytest.approx(given_the_stem(desk, CHOICES, len("0.")))
    forced = [(asked.id, asked.prompt, *asked.logit_bias) for asked in client.asked]
    assert bool(forced) is (name == "sglang") and bool(client.questions) is (name == "vllm")
    assert {asked.max_tokens for asked in client.asked} <= {1}
    assert {bias for asked in client.asked for bias in asked.logit_bias.values()} <= {100.0}
    assert desk.processed == sum(
        len(prompt) + 1 for prompt in [q.prompt for q in client.questions] + [f[1] for f in forced]
    )
    context = desk.encode_chat(CHATS[0])
    mine = {server for server, prompt, _ in forced if prompt[: len(context)] == context}
    assert len(mine) <= 1, "one chat, one server, one prefix cache"


@pytest.mark.parametrize(
    ("scale", "stem", "asked"),
    [
        (VARIANCE, len(r"\boxed{0."), ["012", "02468", "0258", "05"]),
        (PASSES, 0, ["012345678"]),
    ],
    ids=["variance", "passes"],
)
def test_a_question_is_a_place_where_choices_part(scale, stem, asked):
    """A first digit and then a second one; or nine digits that share one place."""
    client = Client(servers=["it"])
    desk = servers(client, context=500)
    rows = desk.score(CHATS, scale.choices, version=3)
    for row in rows:
        assert row == pytest.approx(given_the_stem(desk, scale.choices, stem))
    context = desk.encode_chat(CHATS[0])
    found = [q for q in client.questions if q.prompt[: len(context)] == context]
    assert [desk.tokenizer.decode(question.tokens) for question in found] == asked
    paths = [desk.tokenizer.decode(question.prompt[len(context) :]) for question in found]
    assert all(path.startswith(scale.choices[0][:stem]) for path in paths)
    server = client.servers["it"]
    assert server.calls.count(in_server.begin_answers) == 1, "one call for all of them"
    tokens = max(len(desk.encode_reply(choice)) for choice in scale.choices)
    room = min(map(len, map(desk.encode_chat, CHATS))) + tokens
    tight = servers(client, context=room).score(CHATS, scale.choices, version=3)
    assert tight == [rows[0], [-math.inf] * len(scale.choices)], "the last token needs room"


def test_the_first_question_goes_ahead_and_then_the_first_of_each_chat():
    chats = [[{"role": "user", "content": f"What is {i}?"}] for i in range(5)]
    client = Client(servers=["it"])
    desk = servers(client, context=500)
    desk.score(chats, VARIANCE.choices, 3)
    first = [question.prompt for question in client.questions[: len(chats)]]
    stem = desk.encode_reply(r"\boxed{0.")
    assert first == [desk.encode_chat(chat) + stem for chat in chats]


def test_a_judgment_that_no_row_of_an_update_can_hold_is_not_asked_about():
    """Three sequences of a chat and ten tokens; of one-token choices the chat alone."""
    desk = servers(Client(), context=500)
    sizes = [len(desk.encode_chat(chat)) for chat in CHATS]
    row = 3 * (sizes[0] + 10)
    tight = servers(Client(), context=500, row=row)
    values = tight.score(CHATS, VARIANCE.choices, 3)
    assert math.isfinite(values[0][0]) and values[1] == [-math.inf] * len(VARIANCE.choices)
    passes = tight.score(CHATS, PASSES.choices, 3)
    assert all(math.isfinite(value) for row in passes for value in row)


def test_many_choices_take_several_questions():
    client = Client(servers=["it"])
    desk = servers(client)
    desk.encode_reply = lambda text: [int(text)]
    choices = [str(i) for i in range(in_server.MOST_TOKENS + 5)]
    [row] = desk.score(CHATS[:1], choices, 3)
    assert row == pytest.approx([-i / 100 for i in range(len(choices))])
    assert [len(question.tokens) for question in client.questions] == [in_server.MOST_TOKENS, 5]


def test_chats_are_dealt_to_the_servers():
    chats = [[{"role": "user", "content": f"What is {i}?"}] for i in range(7)]
    client = Client(servers="abc")
    desk = servers(client)
    desk.complete(chats, Sampling(2), 3)
    assert Counter(asked.id for asked in client.asked) == {"a": 3, "b": 2, "c": 2}
    rows = desk.score(chats, CHOICES, 3)
    dealt = Counter()
    for context in map(desk.encode_chat, chats):
        (server,) = (
            name
            for name, server in client.servers.items()
            if any(question.prompt[: len(context)] == context for question in server.asked)
        )
        dealt[server] += 1
    assert dealt == {"a": 3, "b": 2, "c": 2}
    assert rows == [rows[0]] * len(chats)


def test_answers_find_their_chat_again():
    """Whatever the number of servers, and the order in which they answer."""
    chats = [[{"role": "user", "content": "x" * i}] for i in range(1, 8)]
    for names in ("a", "ab", "abc", "abcdefghi"):
        client = Client(servers=names)
        for server in client.servers.values():

            async def score(question):
                await asyncio.sleep(0)
                return [len(question.prompt) + token / 1000 for token in question.tokens]

            server.score = score
        desk = servers(client)
        sizes = [len(desk.encode_chat(chat)) for chat in chats]
        rows = desk.score(chats, ("1", "2"), 3)
        tokens = [desk.encode_reply(choice)[0] / 1000 for choice in ("1", "2")]
        assert rows == [pytest.approx([size + token for token in tokens]) for size in sizes]


def test_what_judge_prompts_share_is_encoded_once(monkeypatch):
    chats = turns([f"What is {i} + 2?" for i in range(20)], [exemplar("1 + 1?", 0.1)])
    client = Client()
    desk = servers(client, context=10_000)
    wanted = [desk.encode_chat(chat) for chat in chats]
    rendered = Mock(wraps=desk.tokenizer.apply_chat_template)
    monkeypatch.setattr(desk.tokenizer, "apply_chat_template", rendered)
    desk.complete(chats, Sampling(2), 3)
    assert [asked.prompt for asked in client.asked] == wanted
    desk.score(chats, ("0", "1"), 3)
    assert encode_scored(desk, chats) == wanted
    assert rendered.call_count < 10


def test_a_chat_that_does_not_fit_says_nothing():
    client = Client()
    long = [{"role": "user", "content": "x" * 200}]
    desk = servers(client)
    assert desk.score([long], CHOICES, 3) == [[-math.inf] * 3]
    (reply,) = desk.complete([long], Sampling(max_tokens=5), 3)
    assert (reply.text, reply.finish, reply.trajectory.loss_mask.any()) == ("", "length", False)
    assert client.asked == client.questions == []


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
    with pytest.raises(RuntimeError, match="weights of step 2, the actor those of step 3"):
        servers(Client(version=2)).score(CHATS, CHOICES, 3)


def test_weights_that_change_while_a_server_scores_are_noticed():
    client = Client(servers=["it"])
    server = client.servers["it"]

    async def score(question):
        server.global_steps = 4
        return [-1.0 for _ in question.tokens]

    server.score = score
    with pytest.raises(RuntimeError, match="weights of step 4, the actor those of step 3"):
        servers(client).score(CHATS, CHOICES, 3)


def test_what_goes_wrong_inside_a_server_is_raised():
    client = Client(servers=["it"])

    async def score(question):
        raise ValueError("the prompt is too long")

    client.servers["it"].score = score
    with pytest.raises(ValueError, match="the prompt is too long"):
        servers(client).score(CHATS, CHOICES, 3)
    assert in_server._running == {}


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


def test_a_server_that_does_not_force_tokens_is_refused():
    client = Client()
    free = client.generate

    async def generate(request_id, *, prompt_ids, sampling_params):
        sampling_params.pop("logit_bias")
        return await free(request_id, prompt_ids=prompt_ids, sampling_params=sampling_params)

    client.generate = generate
    with pytest.raises(MetisError, match="does not support logit_bias"):
        servers(client, name="sglang").score(CHATS, CHOICES, 3)


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_a_server_that_died_is_the_error(name):
    client = Client()

    async def generate(*_, **options):
        raise ray.exceptions.ActorDiedError

    client.generate = generate
    client.servers = {"it": Server(error=ray.exceptions.ActorDiedError())}
    with pytest.raises(MetisError, match=r"a rollout server died \(ActorDiedError\)"):
        servers(client, name=name).score(CHATS, CHOICES, 3)
