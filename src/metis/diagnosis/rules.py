"""The table of diagnoses: what can be wrong with a run, by which numbers, and what to do.

Bounds come from the 232 runs of `evidence/` where they can: none of those is ill, as far as is
known, except for answers that were truncated and groups without variance.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from metis.curricula.judges import JUDGES
from metis.curricula.judges.skill import DIAGNOSED
from metis.diagnosis.commands import SEEDS, Commands
from metis.diagnosis.facts import MISSED, RunFacts
from metis.diagnosis.missed import FEWEST, KeptAnswer
from metis.run.notices import EASIER, HARDER, LONGER, MEND, MOSTLY, sentence
from metis.run.statistics import RARE
from metis.tasks.file import COMPARED, MATCHES

FAILING = 0.05
"""Share of failed rollouts. A reward that fails is a fault, not chance; of the recorded runs none
has any, and a single failure is noticed while a run goes on."""
STEEPER = 10.0
"""Gradient norm of the last fifth over the first. Recorded runs are at 3.7 at most: it grows as
more groups become informative."""
DIVERGED = 0.1
"""KL divergence in nats per token. Recorded runs are below 0.003; implementations of PPO commonly
end an update at 0.015 to 0.05."""
SHORTER = 0.25
"""Length of answers in the last fifth over the first. Recorded runs are at 0.52 at least, where
the model learnt to stop once it has answered."""
ENDED, ENDED_SHARE = 8, 0.2
"""Answers that ended by themselves, and their share, from which on it is told that they fail too:
fewer say little of those that were truncated."""
ENOUGH = 64
"""Rewards from which on "always the same" is said."""
TELLING = 0.05
"""Half an interval of the rise that a held-out set should reach."""
MOST_HELDOUT = 2000
"""Larger held-out sets are not advised: they cost more than the training of a small run."""
LESS = 10
"""Divisor of a learning rate that is too high."""
USUAL, USUAL_LORA = 1e-5, 1e-4
"""Learning rates above which none is advised, for all weights and for adapters."""
LONGER_BY, MUCH_LONGER_BY = 2, 8
"""Factors of a limit on tokens; the larger where nearly no answer ends, so that the length of
answers is not known."""
NEARLY_ALL = 0.9
UNMET = 2 / 3
"""Share of the rewarded answers that lack what was expected from which on the reward is doubted: of
`ENOUGH` answers, a share that is more than half beyond chance."""
WORSE = 3.0
"""Standard errors below 0 of a lift that is said to be worse. The 95% interval of one judge in 40
without any skill is below 0; its lift is this low in one of 700. Of 89 recorded runs none has an
interval below 0."""
LENIENT = "see whether the reward asks for too little"
MASTERED = 0.99
"""Held-out accuracy before training from which on nothing is left to learn."""
UNUSABLE = 0.25
"""Share of judgments without a prediction from which on it is told of."""
OTHERS = {
    "direct": "whose answer is read from log-probabilities, so that none is unusable",
    "readout": "which predicts from the policy's hidden states",
}
"""Judges that can be tried in place of another, and what is different about them."""


@dataclass(frozen=True)
class Rule:
    """Something that can be wrong with a run.

    name     what it is called
    holds    whether the numbers of a run show it
    said     what is said of it, with these numbers
    command  what to run next; None where no command helps
    """

    name: str
    holds: Callable[[RunFacts], bool]
    said: Callable[[RunFacts], str]
    command: Callable[[RunFacts, Commands], str | None]


def found(facts: RunFacts) -> Iterator[Rule]:
    """The rules that apply to a run, the most harmful first."""
    return (rule for rule in RULES if rule.holds(facts))


# The learning rate, and other settings that a command changes


def _setting(facts: RunFacts, key: str) -> float | None:
    section, _, name = key.partition(".")
    given = facts.run.config.get(section)
    value = given.get(name) if isinstance(given, dict) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _slower(facts: RunFacts, commands: Commands) -> str | None:
    rate = _setting(facts, "engine.learning_rate")
    if not rate:
        return None
    slower = min(rate / LESS, USUAL_LORA if _setting(facts, "engine.lora") else USUAL)
    return commands.again(f"engine.learning_rate={slower:.1g}")


def _too_fast(facts: RunFacts) -> str:
    rate = _setting(facts, "engine.learning_rate")
    return f"Lower the learning rate{f', which is {rate:g}' if rate else ''}"


def _longer(facts: RunFacts, commands: Commands) -> str | None:
    limit = _setting(facts, "engine.max_tokens")
    factor = MUCH_LONGER_BY if facts.truncated >= NEARLY_ALL else LONGER_BY
    return commands.again(f"engine.max_tokens={factor * limit:.0f}") if limit else None


def _more_heldout(facts: RunFacts, commands: Commands) -> str | None:
    key = "benchmark_limit" if facts.run.config.get("benchmarks") else "task.heldout"
    if facts.run.simulated:
        key = "engine.heldout"
    wanted = _wanted(facts)
    known = facts.run.config.get(key) if "." not in key else _setting(facts, key)
    return commands.again(f"{key}={wanted}") if known and wanted > facts.heldout else None


def _wanted(facts: RunFacts) -> int:
    """Held-out prompts that would make the interval of the rise narrow enough, about."""
    change = facts.change
    if change is None:
        return 0
    needed = facts.heldout * ((change.high - change.mean) / TELLING) ** 2
    return min(MOST_HELDOUT, 50 * math.ceil(needed / 50))


# Conditions


def _missing(facts: RunFacts) -> bool:
    """True where groups earn nothing although most of their answers have what was expected, or all
    groups although some answers end with it."""
    if facts.missed is None:
        return False
    nothing = set(facts.groups.rewards) == {0} and len(facts.missed.ending) >= FEWEST
    return nothing or facts.missed.share >= MISSED


def lenient(facts: RunFacts) -> bool:
    """True where most of the answers that a reward of one's own rewards lack what was expected."""
    passed = facts.passed
    if passed is None or passed.rewarded < ENOUGH:
        return False
    return len(passed.without) >= UNMET * passed.rewarded


def _constant(facts: RunFacts) -> bool:
    """True where all rewards are the same though answers differ: 0 though they end by themselves,
    or a value that is neither 0 nor 1."""
    if _missing(facts) or _hopeless(facts) or len(facts.groups.rewards) != 1:
        return False
    groups = facts.groups
    [reward] = groups.rewards
    ended = facts.truncated < MOSTLY and facts.failed < MOSTLY
    differ = groups.rollouts >= ENOUGH and len(groups.lengths) > 1
    return differ and (0 < reward < 1 or (reward == 0 and ended))


def _hopeless(facts: RunFacts) -> bool:
    """True where all answers fail: most are truncated, and those that are not fail too; or most are
    not, and do not have what was expected."""
    if _missing(facts) or set(facts.groups.rewards) != {0}:
        return False
    if facts.truncated <= MOSTLY:
        return _wrong(facts)
    fewest = max(ENDED, ENDED_SHARE * facts.groups.lengths.total())
    return facts.ended is not None and facts.ended >= fewest


def _wrong(facts: RunFacts) -> bool:
    """True where nearly no answer has what was expected in it, so that the reward is right."""
    found, looked = facts.having
    return looked >= ENOUGH and found < RARE * looked


def _flat(facts: RunFacts) -> bool:
    """True where nothing varies for no reason that another rule has."""
    if _hopeless(facts) or lenient(facts):
        return False
    if _solved(facts) or _constant(facts) or _missing(facts) or facts.truncated >= NEARLY_ALL:
        return False
    return facts.standstill is not None or _scarce(facts)


def _scarce(facts: RunFacts) -> bool:
    """True where few of the groups trained on have a gradient."""
    informative = facts.run.informative
    return informative is not None and informative < RARE


def _solved(facts: RunFacts) -> bool:
    if lenient(facts):
        return False
    return facts.late_kinds.get("all-pass", 0.0) >= MOSTLY or _mastered(facts)


def _mastered(facts: RunFacts) -> bool:
    """True where the first validation leaves nothing to learn."""
    tests = facts.run.evaluations
    return bool(tests) and tests[0].step == 0 and tests[0].accuracy >= MASTERED


def _cut(facts: RunFacts) -> bool:
    return facts.truncated > MOSTLY and not lenient(facts)


def _exploded(facts: RunFacts) -> bool:
    grown = facts.gradient is not None and facts.gradient[1] >= STEEPER * facts.gradient[0]
    return grown or facts.divergence >= DIVERGED or facts.non_finite > 0


def collapsed(facts: RunFacts) -> bool:
    """True where answers became short, and accuracy did not rise."""
    both, change = facts.answer_length, facts.change
    if both is None or (change is not None and change.low > 0):
        return False
    return both[1] <= SHORTER * both[0]


def _broken(facts: RunFacts) -> bool:
    """True where shorter answers earn no more than the longer ones did."""
    return collapsed(facts) and facts.reward is not None and facts.reward[1] <= facts.reward[0]


def _fell(facts: RunFacts) -> bool:
    return facts.change is not None and facts.change.high < 0 and not _broken(facts)


def _unskilled(facts: RunFacts) -> bool:
    lift = facts.helped
    return facts.outcomes >= DIAGNOSED and lift is not None and lift.low <= 0


def worse(facts: RunFacts) -> bool:
    """True where the lift of the judge is below 0 beyond what judges without skill have."""
    lift = facts.lift
    return lift is not None and lift.error is not None and lift.mean < -WORSE * lift.error


def _untold(facts: RunFacts) -> bool:
    change = facts.change
    if change is None or change.low > 0 or change.high < 0:
        return False
    return change.high - change.mean > TELLING


# Words


def _failing(facts: RunFacts) -> str:
    reason = f", the first with {facts.failures[0]}" if facts.failures else ""
    return f"{facts.failed:.0%} of the rollouts failed{reason}. {sentence(MEND)}"


def _too_hard(facts: RunFacts) -> str:
    said, (found, looked) = "every reward is 0", facts.having
    if facts.truncated > MOSTLY:
        said += f", also those of the {facts.ended:,} answers that ended by themselves"
    if looked:
        said += (
            f"; {found or 'none'} of the {looked:,} latest ended answers contain the expected one"
        )
    remedy = f"see whether the reward is too strict, or {EASIER}" if found else EASIER
    return f"{said}. {sentence(remedy)}"


def _truncated(facts: RunFacts) -> str:
    at = "" if facts.limit is None else f" at {facts.limit:,} tokens (engine.max_tokens)"
    return f"{facts.truncated:.0%} of the answers were truncated{at}. {sentence(LONGER)}"


def _explosion(facts: RunFacts) -> str:
    parts = []
    if facts.gradient is not None and facts.gradient[1] >= STEEPER * facts.gradient[0]:
        parts.append(
            f"the gradient norm rose from {facts.gradient[0]:.2g} to {facts.gradient[1]:.2g}"
        )
    if facts.divergence >= DIVERGED:
        parts.append(f"the KL divergence reached {facts.divergence:.2g} nats per token")
    if facts.non_finite:
        parts.append(f"in {facts.non_finite:,} steps a loss or gradient was not finite")
    return f"the update went out of bounds ({', and '.join(parts)}). {_too_fast(facts)}"


def _collapse(facts: RunFacts) -> str:
    before, after = facts.answer_length or (0.0, 0.0)
    since = facts.shorter_from(SHORTER * before)
    said = f"answers shrank from {before:.0f} tokens to {after:.0f}"
    said += "" if since is None else f" from step {since:,} on"
    said += ", and accuracy did not rise"
    if _broken(facts):
        return f"{said}, nor did rewards: the updates broke the model. {_too_fast(facts)}"
    return f"{said}. Read some: the reward may pay for saying little"


def _slower_or_read(facts: RunFacts, commands: Commands) -> str | None:
    return (_slower(facts, commands) if _broken(facts) else None) or commands.view()


def _misses(facts: RunFacts) -> str:
    share = facts.missed.share if facts.missed else 0.0
    ending = len(facts.missed.ending) if facts.missed else 0
    said = f"in {share:.0%} of the latest groups every reward is 0, though most answers end with"
    if share < MISSED:
        said = f"every reward is 0, though {ending} of the latest answers end with"
    said += (
        f" what was expected: {_reward(facts)} is too strict, or the answers lack the form that it "
        "asks for"
    )
    if accepting := _accepting(facts):
        return f"{said}. With task.match={accepting}, {COMPARED[accepting]} counts"
    return f"{said}. Read one, then fix the reward or the instruction"


def _reward(facts: RunFacts) -> str:
    return f"the reward ({facts.own_reward})" if facts.own_reward else "the reward"


def _passes(facts: RunFacts) -> str:
    rewarded, without = (
        (facts.passed.rewarded, len(facts.passed.without)) if facts.passed else (0, 0)
    )
    said = (
        f"{without:,} of the {rewarded:,} latest rewarded answers do not contain what was "
        f"expected: {_reward(facts)} may pass wrong answers"
    )
    if not facts.run.config.get("benchmarks"):
        said += ", and then the accuracy above is not to be trusted"
    return f"{said}. Read one, then fix the reward"


def _read_passed(facts: RunFacts, commands: Commands) -> str | None:
    return _clearest(facts.passed.without, commands) if facts.passed else None


def _clearest(answers: Sequence[KeptAnswer], commands: Commands) -> str:
    """Look at the latest answer, of those that ended by themselves, and that end with the
    reference, if there are such."""
    found = min(reversed(answers), key=lambda each: (each.truncated, not each.exact))
    return commands.answer(found.step, found.prompt, found.rollout)


def _accepting(facts: RunFacts) -> str:
    """The way of comparing answers of a file that would have taken most of what was missed; empty
    where there is none."""
    task = facts.run.config.get("task")
    if not isinstance(task, dict) or task.get("name") != "file" or task.get("reward"):
        return ""
    answers = facts.missed.answers if facts.missed else ()
    taken = {
        name: sum(same(each.text, each.reference) for each in answers)
        for name, same in MATCHES.items()
        if name != task.get("match")
    }
    best = max(taken, key=lambda name: taken[name])
    return best if taken[best] > MOSTLY * len(answers) else ""


def _read_or_match(facts: RunFacts, commands: Commands) -> str | None:
    """Train with the comparison that takes the answers, or look at one of them."""
    if accepting := _accepting(facts):
        return commands.again(f"task.match={accepting}")
    if facts.missed is None:
        return None
    return _clearest(facts.missed.ending or facts.missed.answers, commands)


def _same(facts: RunFacts) -> str:
    [reward] = facts.groups.rewards
    if reward:
        return (
            f"every reward is {reward:g}, whatever the answer, so there is no gradient. Fix the "
            "reward function: it tells no answers apart"
        )
    return (
        f"every reward is 0, so there is no gradient, though {1 - facts.truncated:.0%} of the "
        "answers end by themselves. Look at answers: is the reward too strict, or are the prompts "
        "too hard?"
    )


def _nothing(facts: RunFacts) -> str:
    if facts.standstill:
        said = facts.standstill.described
    else:
        said = f"only {facts.run.informative:.1%} of the groups trained on had a gradient"
    solved = facts.kinds.get("all-pass", 0.0) > facts.kinds.get("all-fail", 0.0)
    return f"{said}. {sentence(HARDER if solved else EASIER)}"


def _informed(facts: RunFacts, commands: Commands) -> str:
    """A survey where nothing varied; a comparison with METIS where little did, unselected."""
    rare = bool(facts.run.informative) and facts.run.curriculum == "uniform"
    return commands.compare("uniform", "metis", "probe") if rare else commands.survey()


def _all_pass(facts: RunFacts) -> str:
    if _mastered(facts):
        return (
            f"held-out accuracy was {facts.run.evaluations[0].accuracy:.3f} before training, so "
            f"that nothing can be gained: {HARDER}, or {LENIENT}"
        )
    share = facts.late_kinds.get("all-pass", 0.0)
    said = f"in the end {share:.0%} of the groups were all-pass, and taught nothing"
    if _unfinished(facts):
        return f"{said}, though most answers were truncated. {sentence(LENIENT)}"
    return f"{said}. {sentence(HARDER)}, or {LENIENT}"


def _unfinished(facts: RunFacts) -> bool:
    """True where most answers are truncated, and are right all the same."""
    return facts.truncated > MOSTLY and not _mastered(facts)


def _measured_or_read(facts: RunFacts, commands: Commands) -> str:
    return commands.view() if _unfinished(facts) else commands.survey()


def _no_skill(facts: RunFacts) -> str:
    said = f"in {facts.run.steps:,} steps {no_benefit(facts)} (realised lift {facts.helped})"
    if facts.unusable >= UNUSABLE:
        said += f"; {facts.unusable:.0%} of its judgments were unusable"
        if _cut_short(facts):
            return f"{said}, most of them truncated. Give its replies more room"
    others = [f"{name}, {OTHERS[name]}" for name in _others(facts)]
    compared = ["uniform sampling, which costs no judging", *others]
    said += f". Compare it with {'; with '.join(compared)}"
    if not others:
        return said
    variants, seeds = 2 + len(others), len(SEEDS)
    return f"{said} ({variants} variants × {seeds} seeds: {variants * seeds} runs)"


def no_benefit(facts: RunFacts) -> str:
    """What is said of a judge whose lift is not above 0."""
    judge = f"the judge ({facts.judge})" if facts.judge else "the judge"
    return f"{judge} chose worse" if worse(facts) else f"no benefit of {judge} is shown"


def _others(facts: RunFacts) -> list[str]:
    """Other judges that the run could use."""
    name = facts.judge if facts.run.curriculum == "metis" else ""
    return [other for other in OTHERS if other != name] if name in JUDGES else []


def _cut_short(facts: RunFacts) -> bool:
    """True of a judge that writes replies, most of whose failures were truncated."""
    return bool(_reply_limit(facts)) and facts.cut_short > MOSTLY * facts.unusable


def _reply_limit(facts: RunFacts) -> int:
    """The most tokens of a judge's reply; 0 of one that writes none."""
    curriculum = facts.run.config.get("curriculum")
    judge = curriculum.get("judge") if isinstance(curriculum, dict) else None
    limit = judge.get("max_tokens") if isinstance(judge, dict) and facts.judge == "reason" else 0
    return limit if isinstance(limit, int) else 0


def _other_judge(facts: RunFacts, commands: Commands) -> str:
    if facts.unusable >= UNUSABLE and _cut_short(facts):
        return commands.again(f"curriculum.judge.max_tokens={LONGER_BY * _reply_limit(facts)}")
    others = _others(facts)
    if not others:
        return commands.again("curriculum=uniform")
    own = facts.run.curriculum
    return commands.compare("uniform", own, **{each: f"curriculum.judge={each}" for each in others})


def _fallen(facts: RunFacts) -> str:
    best = facts.run.best
    kept = f"; the best validation was at step {best.step:,}" if best and best.step else ""
    return f"held-out accuracy fell ({facts.change}){kept}. {_too_fast(facts)}"


def _too_few(facts: RunFacts) -> str:
    change = facts.change
    half = change.high - change.mean if change else 0.0
    return (
        f"{facts.heldout:,} held-out problems are too few: the change in accuracy is known to "
        f"±{half:.3f} only. About {_wanted(facts):,} would tell one of {TELLING:.2f}"
    )


RULES = (
    Rule("reward too lenient", lenient, _passes, _read_passed),
    Rule(
        "rollouts fail",
        lambda facts: facts.failed >= FAILING,
        _failing,
        lambda facts, commands: commands.view(),
    ),
    Rule("update out of bounds", _exploded, _explosion, _slower),
    Rule("answers collapse", collapsed, _collapse, _slower_or_read),
    Rule("accuracy fell", _fell, _fallen, _slower),
    Rule("reward misses it", _missing, _misses, _read_or_match),
    Rule("prompts too hard", _hopeless, _too_hard, lambda facts, commands: commands.survey()),
    Rule("everything solved", _solved, _all_pass, _measured_or_read),
    Rule("answers truncated", _cut, _truncated, _longer),
    Rule("reward always the same", _constant, _same, lambda facts, commands: commands.view()),
    Rule("nothing varies", _flat, _nothing, _informed),
    Rule("judge without skill", _unskilled, _no_skill, _other_judge),
    Rule("too few held-out problems", _untold, _too_few, _more_heldout),
)
"""From the most harmful on: what voids a run comes before what slows it down."""
