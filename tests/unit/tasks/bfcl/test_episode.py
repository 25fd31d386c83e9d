"""An episode as a policy lives it: calls and results, the user's next turns, what is withheld."""

import pytest

import bfcl_package
from metis.prepare import bfcl_sets
from metis.tasks.bfcl import wording
from metis.tasks.bfcl.dialogue import Dialogue
from metis.tasks.bfcl.episode import Episode

bfcl_package.require()


@pytest.fixture(scope="module")
def dialogues():
    return bfcl_sets.every("rebuilt")


def written(turn):
    return f"[{', '.join(turn)}]"


def answer(episode, text):
    [message] = episode.reply(text)
    assert message["role"] == "user"
    return message["content"]


def test_a_user_goes_on_when_the_policy_replies_in_words(dialogues):
    dialogue = dialogues["base"][0]
    episode = Episode(dialogue)
    system, user = episode.chat
    assert (system["role"], user["role"]) == ("system", "user")
    assert user["content"] == dialogue.questions[0]
    for turn, question in zip(dialogue.truth, [*dialogue.questions[1:], None], strict=True):
        assert answer(episode, written(turn)).startswith("Results:\n")
        if question is None:
            assert episode.reply("That is all done.") is None
        else:
            assert answer(episode, "That is done.") == question
    assert episode.reward() == {"score": 1.0, "official": 1.0, "turns": 1.0}


def test_the_system_message_summarises_every_function_in_a_line(dialogues):
    for dialogue in dialogues["base"]:
        said = dialogue.chat[0]["content"]
        for api in dialogue.apis:
            assert api.purpose in said
            for function in api.functions.values():
                assert f"\n- {function.name}(" in said
        assert "='None'" not in said, "documentation has defaults as text"
        assert len(said) < 4500, "the paper's prompts have 2,048 tokens"


def test_the_judge_reads_the_first_turn_and_the_names_of_the_apis(dialogues):
    dialogue = dialogues["miss_func"][0]
    text = dialogue.prompt.text
    assert text == f"{dialogue.questions[0]}\n\nAPIs: TwitterAPI, GorillaFileSystem"
    assert dialogue.prompt.category == "miss_func"


@pytest.mark.parametrize("category", ["miss_func", "composite"])
def test_a_withheld_function_is_withheld_until_its_turn(dialogues, category):
    for dialogue in dialogues[category][::20]:
        episode = Episode(dialogue)
        [(handed, names)] = dialogue.handed.items()
        for name in names:
            assert f"- {name}(" not in episode.chat[0]["content"]
        for turn in range(handed):
            for name in names:
                assert f"no function {name!r}" in answer(episode, f"{name}()")
            said = answer(episode, "I cannot do that.")
            assert all((f"- {name}(" in said) == (turn == handed - 1) for name in names)
        assert said.endswith(wording.AGAIN)
        assert "no function" not in answer(episode, written(dialogue.truth[handed]))


@pytest.mark.parametrize("category", ["base", "miss_func", "miss_param", "composite"])
def test_doing_nothing_does_not_pay(dialogues, category):
    for dialogue in dialogues[category][::10]:
        episode = Episode(dialogue)
        while episode.reply("I did it.") is not None:
            pass
        assert episode.reward() == {"score": 0.0, "official": 0.0, "turns": 1.0}


@pytest.mark.parametrize("calls", ["[fly()]", "[pwd(), echo(content='x')]"])
@pytest.mark.parametrize("category", ["base", "miss_func", "miss_param", "composite"])
def test_calls_of_whatever_kind_do_not_pay(dialogues, category, calls):
    """Not even beside abstention; a few ground truths end in the state that they began with."""
    rewards = []
    for dialogue in dialogues[category]:
        episode = Episode(dialogue)
        while episode.reply("Done." if episode.step else calls) is not None:
            pass
        rewards.append(episode.reward()["score"])
    assert sum(rewards) / len(rewards) < 0.02


GETTERS = {
    "GorillaFileSystem": ["pwd()", "ls()", "ls(a=True)", "find()", "du()"],
    "VehicleControlAPI": [
        *(f"displayCarStatus(option={option!r})" for option in ("fuel", "battery", "doors")),
        *("check_tire_pressure()", "find_nearest_tire_shop()"),
        *(f"get_zipcode_based_on_city(city={city!r})" for city in ("Rivermist", "Stonebrook")),
    ],
    "TradingBot": [
        *("get_account_info()", "get_watchlist()", "get_order_history()", "get_current_time()"),
        *(f"get_stock_info(symbol={name!r})" for name in ("AAPL", "GOOG", "TSLA", "NVDA", "ZETA")),
    ],
    "TravelAPI": ["list_all_airports()", "travel_get_login_status()", "get_all_credit_cards()"],
    "TwitterAPI": ["posting_get_login_status()", "list_all_following()"],
    "TicketAPI": ["ticket_get_login_status()", "get_user_tickets()", "get_ticket(ticket_id=1)"],
    "MessageAPI": ["list_users()", "view_messages_sent()", "get_message_stats()"],
    "MathAPI": ["absolute_value(number=1)"],
}


def test_calling_everything_that_is_harmless_pays_less(dialogues):
    """The same in every first turn, whatever is asked; the official verdict does not look."""
    rewards = {0: [], 8: []}
    for dialogue in dialogues["base"]:
        calls = written(call for name in dialogue.names for call in GETTERS[name] * 3)
        for spare, earned in rewards.items():
            episode = Episode(dialogue, spare_calls=spare)
            episode.reply(calls)
            episode.end_turn()
            earned.append(episode.reward())
    bounded, free = (sum(each["score"] for each in rewards[spare]) for spare in (8, 0))
    assert 0 < bounded < 0.5 * free
    assert [each["official"] for each in rewards[0]] == [each["official"] for each in rewards[8]]


@pytest.mark.parametrize("reply", ["[cd(folder='a'", f"[{', '.join(['ls()'] * 65)}]"])
def test_calls_that_cannot_be_read_are_no_abstention(dialogues, reply):
    dialogue = dialogues["miss_param"][0]
    episode = Episode(dialogue)
    for turn in dialogue.truth:
        episode.reply(written(turn) if turn else reply)
        episode.reply("Done.")
    acting = sum(map(bool, dialogue.truth)) / len(dialogue.truth)
    assert episode.reward() == {"score": acting, "official": 1.0, "turns": 1.0}


def test_part_of_the_work_earns_part_of_the_reward(dialogues):
    dialogue = dialogues["base"][0]
    episode = Episode(dialogue)
    episode.reply(written(dialogue.truth[0]))
    while episode.reply("Done.") is not None:
        pass
    assert episode.reward()["score"] == pytest.approx(1 / len(dialogue.truth))
    assert episode.reward()["official"] == 0.0


def test_results_are_cut_but_scored_whole(dialogues):
    dialogue = next(
        each
        for each in dialogues["long_context"]
        if max(map(len, Episode(each).make(each.solution[0])), default=0) > 2000
    )
    episode, longest = Episode(dialogue, output=300), 0
    for turn in dialogue.truth:
        for call in turn:
            longest = max(longest, len(answer(episode, f"[{call}]")))
        episode.reply("Done.")
    assert longest < 400 and episode.reward()["score"] == 1.0


@pytest.mark.parametrize("reply", [f"[{'x' * 60_000}()]", f"[{'ls(), ' * 63} ls()]"])
def test_nothing_that_a_policy_writes_makes_results_long(dialogues, reply):
    assert len(answer(Episode(dialogues["long_context"][0], output=500), reply)) < 2500


def test_results_that_come_again_are_kept_once(dialogues):
    episode = Episode(dialogues["long_context"][0])
    for _ in range(20):
        episode.reply(f"[{', '.join(['ls()'] * 64)}]")
    assert len(episode.results) == 1 and episode.results.total() == 20 * 64
    assert max(map(len, episode.results)) <= 16, "not the text, which may be long"


def test_a_turn_of_too_many_steps_ends_the_episode(dialogues):
    episode = Episode(dialogues["base"][0], steps=3)
    for _ in range(3):
        assert "Results" in answer(episode, "[pwd()]")
    assert episode.reply("[pwd()]") is None
    assert episode.reward()["official"] == 0.0


def test_an_episode_that_is_cut_short_counts_for_what_was_done(dialogues):
    dialogue = dialogues["base"][0]
    episode = Episode(dialogue)
    episode.reply(written(dialogue.truth[0]))
    part = 1 / len(dialogue.truth)
    assert episode.reward() == {"score": part, "official": 0.0, "turns": part}


def test_what_cannot_be_read_or_done_is_told(dialogues):
    episode = Episode(dialogues["base"][0])
    assert answer(episode, "[cd(folder='x'").startswith("Error: not a list of calls")
    assert "there is no function 'fly'" in answer(episode, "[fly()]")
    assert "not a literal" in answer(episode, "[cd(folder=x)]")


def test_a_dialogue_is_the_same_when_it_was_written_and_read(dialogues):
    for part in dialogues.values():
        assert Dialogue.read(part[0].written) == part[0]
