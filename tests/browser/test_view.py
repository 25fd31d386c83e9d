"""`metis view` in a browser: its pages, the address, the keyboard, a live run, and hostile text."""

import gzip
import json
import os
import re
import shlex
import shutil
import threading
from pathlib import Path
from urllib.parse import quote

import pytest

from metis.cli import main
from metis.view.browse import bundle
from metis.view.browse.server import Server
from shown_folders import Folder

COMPARISON = Path(__file__).parents[2] / "evidence/judge-in-training/dapo-hard"
HOSTILE = "</script><img src=x onerror=alert(1)><b>bold</b> \x1b[31mred\u202e " + "w" * 10_000
TEXTS = {
    "algebra/1": "Find the sum of the roots of x^2 - 5x + 6.",
    "algebra/2": "Find the product of the roots of x^2 - 5x + 6.",
    "count/1": "In how many ways can four books stand on a shelf?",
    HOSTILE: HOSTILE,
}
CATEGORIES = {"algebra/1": "algebra", "algebra/2": "algebra", "count/1": "counting", HOSTILE: "<i>"}


def add_step(folder, step):
    """Two prompts are chosen and two passed over; `count/1` fails once and is truncated once."""
    chosen = ("algebra/1", "count/1") if step != 2 else ("algebra/2", HOSTILE)
    for place, prompt in enumerate(TEXTS):
        judgment = {"step": step, "prompt": prompt, "chosen": prompt in chosen}
        reason = "passed over" if prompt not in chosen else "explore" if place == 2 else "top"
        scored = {"score": 0.2 - place / 20, "distribution": {"0.10": 0.4, "0.25": 0.6}}
        folder.log("judgments", {**judgment, "reason": reason, **scored})
        if step == 1:
            known = {"text": TEXTS[prompt], "category": CATEGORIES[prompt]}
            folder.log("prompts", {"step": 1, "prompt": prompt, **known})
    for prompt in chosen:
        group = {"rewards": [0.0, 1.0], "tokens": [10, 11], "failed": int(prompt == "count/1")}
        folder.log("rollouts", {"step": step, "prompt": prompt, **group})
        said = [HOSTILE] if prompt == HOSTILE else [f"I think it is {step}."]
        turns = [
            {"role": "assistant", "content": "<tool_call>roots</tool_call>"},
            {"role": "tool", "content": "2 and 3"},
            {"role": "assistant", "content": f"So the answer of step {step} is \\boxed{{5}}."},
        ]
        rewards = [0.0, 1.0, None] if prompt == "count/1" else [0.0, 1.0]
        asked = [{"role": "system", "content": "Be brief."}]
        asked.append({"role": "user", "content": TEXTS[prompt]})
        kept = {"step": step, "rewards": rewards, "messages": asked}
        kept |= {"category": CATEGORIES[prompt], "reference": "</pre>4 or five"}
        folder.say(prompt, said[0], turns, *[""] * (len(rewards) - 2), **kept)
    known = {"batch/informative": 1.0, "rollout/tokens": 40, "rollout/generated": 4}
    folder.log("metrics", {"step": step, "eval/accuracy": 0.2 + step / 10, **known})


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("METIS_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def run(tmp_path):
    folder = Folder(tmp_path / "run")
    for step in (1, 2, 3):
        add_step(folder, step)
    return folder


@pytest.fixture
def serve():
    """Serves folders until the test ends."""
    served = []

    def started(*folders):
        server = Server(folders, 0)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        served.append((server, thread))
        return server.url

    yield started
    for server, thread in served:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def opened(serve, opened):
    """Its pages close before the server ends."""
    return opened


@pytest.fixture
def url(serve, run):
    return serve(run.path)


def expect(found):
    from playwright.sync_api import expect

    return expect(found)


def answer_address(prompt, rollout=0, step=2, **query):
    ended = "&".join(f"{name}={value}" for name, value in query.items())
    return f"#/0/answer/train/{step}/{quote(prompt, safe='')}/{rollout}" + f"?{ended}" * bool(ended)


PAGES = {
    "#/0": "seed 0",
    "#/0?steps=all": "seed 0",
    "#/0/step/2": "Step 2",
    "#/0/prompts": "Prompts",
    f"#/0/prompt/{quote(HOSTILE, safe='')}": "Prompt",
    "#/0/answers?q=answer": "Answers",
    answer_address(HOSTILE): "Answer 0",
}


PALE = """() => {
  const parse = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = parse(colour).map((value) => value / 255)
      .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    const colour = getComputedStyle(element).backgroundColor;
    return parse(colour)[3] === 0 ? ground(element.parentElement) : colour;
  };
  const contrast = (element) => {
    const style = getComputedStyle(element);
    const text = light(element.namespaceURI.endsWith("svg") ? style.fill : style.color);
    const behind = light(ground(element));
    return (Math.max(text, behind) + 0.05) / (Math.min(text, behind) + 0.05);
  };
  return [...document.querySelectorAll("body *")]
    .filter((element) => [...element.childNodes]
      .some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim()))
    .filter((element) => element.getClientRects().length && !element.closest(":disabled, .none"))
    .filter((element) => contrast(element) < 4.5)
    .map((element) => `${element.className} ${element.textContent.slice(0, 40)}`);
}"""


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_every_page_fits_and_text_of_a_run_stays_text(opened, url, width, scheme):
    page = opened(url, width, scheme)
    for address, title in PAGES.items():
        page.goto(url + address)
        expect(page.get_by_role("heading", level=1)).to_contain_text(title)
        expect(page.locator("main [aria-busy]")).to_have_count(0)
        page.locator("main li, main svg").first.wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, address
        assert page.locator("main img, main b b, main i").count() == 0, address
        assert page.evaluate(PALE) == [], address
    said = page.get_by_role("article", name="Assistant")
    expect(said).to_contain_text("</script><img src=x onerror=alert(1)><b>bold</b> ⟨ESC⟩[31m")
    expect(said).to_contain_text("red⟨U+202E⟩ www")
    said.get_by_role("button", name="Show all").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_chart_leads_to_its_steps_by_pointer_and_keyboard(opened, url):
    page = opened(url)
    chart = page.get_by_role("slider", name="Held-out accuracy")
    chart.focus()
    page.keyboard.press("ArrowLeft")
    expect(chart).to_have_attribute("aria-valuetext", "step 2: 0.400")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Step 2")
    page.go_back()
    box = chart.bounding_box()
    chart.click(position={"x": box["width"] - 15, "y": 60})
    expect(page).to_have_url(re.compile("#/0/step/3$"))


def test_a_step_says_why_and_leads_to_prompts_and_answers(opened, url):
    page = opened(f"{url}#/0/step/1")
    sides = page.locator(".side")
    expect(sides.nth(0).locator("li")).to_have_count(2)
    expect(sides.nth(1).locator("li")).to_have_count(2)
    slot = sides.nth(0).locator("li", has_text="four books")
    expect(slot).to_contain_text("Uniform slot")
    expect(slot.get_by_role("img", name="predicted 0.100, realised 0.250")).to_be_visible()
    expect(slot.get_by_role("img", name="rewards 1, 0; 1 failed")).to_be_visible()
    page.get_by_role("link", name="next step").click()
    expect(sides.nth(0).locator("li").first).to_contain_text("product of the roots")
    sides.nth(0).get_by_role("link", name="Find the product").click()
    expect(page.locator("main pre").first).to_have_text(TEXTS["algebra/2"])
    expect(page.get_by_role("heading", name="Predicted alike")).to_be_visible()
    page.go_back()
    sides.nth(0).get_by_role("link", name="2 answers").first.click()
    expect(page.locator(".cards li")).to_have_count(2)
    expect(page).to_have_url(re.compile(r"answers\?kind=train&step=2&prompt=algebra%2F2$"))


def test_filters_are_in_the_address_and_a_search_is_walked_through(opened, url):
    page = opened(f"{url}#/0/answers")
    found = page.locator("main .cards li")
    expect(found).to_have_count(14)
    page.get_by_label("Text").fill("answer boxed")
    expect(found).to_have_count(6)
    expect(found.first.locator("mark").first).to_have_text("answer")
    page.get_by_text("More filters").click()
    page.get_by_label("Category").select_option("counting")
    expect(found).to_have_count(2)
    expect(page).to_have_url(re.compile("q=answer%20boxed&category=counting$"))
    page.reload()
    expect(found).to_have_count(2)
    expect(page.get_by_label("Text")).to_have_value("answer boxed")
    found.first.get_by_role("link").click()
    expect(page.locator("main")).to_contain_text("1 of 2 in this list")
    expect(page.locator("main mark").first).to_be_visible()
    page.keyboard.press("ArrowRight")
    expect(page.locator("main")).to_contain_text("2 of 2 in this list")
    page.get_by_role("link", name="this list").click()
    page.keyboard.press("Backspace")
    expect(page.locator("main")).to_contain_text("2 of 2 in this list")
    page.go_back()
    page.go_back()
    expect(found.first.get_by_role("link")).to_be_focused()
    page.get_by_label("failed", exact=True).check()
    expect(page.locator("main")).to_contain_text("No answer is left by these filters.")
    page.go_back()
    expect(found).to_have_count(2)


def test_filters_that_a_link_sets_are_seen_and_dropped(opened, url):
    page = opened(f"{url}#/0/answers?kind=train&step=3&reward=right&failed=1")
    narrowed, found = page.locator(".narrowed"), page.locator("main .cards li")
    expect(narrowed.locator(".chip")).to_have_text(
        ["training ×", "step 3 ×", "right ×", "failed ×"]
    )
    expect(page.locator("main")).to_contain_text("No answer is left by these filters.")
    page.get_by_role("button", name="Drop: failed").click()
    expect(found).to_have_count(2)
    narrowed.get_by_role("button", name="Show all").click()
    expect(found).to_have_count(14)
    expect(narrowed).to_have_count(0)
    page.goto(f"{url}#/0/prompts?outcome=informative&q=roots")
    expect(narrowed.locator(".chip")).to_have_text(["“roots” ×", "informative ×"])


def test_an_answer_has_one_number_everywhere(opened, url, run, capsys):
    page = opened(url + answer_address("algebra/1", 1, step=3))
    expect(page.get_by_role("heading", level=1)).to_contain_text("Answer 1 one of 2")
    page.goto(f"{url}#/0/answers?prompt=algebra%2F1&step=3&reward=right")
    expect(page.locator("main .cards li")).to_contain_text("step 3 · answer 1")
    assert main(["inspect", str(run.path), "--answer", "3/algebra/1/1"]) == 0
    assert "So the answer of step 3" in capsys.readouterr().out


def test_examples_of_a_prompt_are_named_so(opened, url, run):
    chat = [("user", "1 + 2?"), ("assistant", "3"), ("user", "1 + 1?")]
    messages = [{"role": role, "content": text} for role, text in chat]
    run.say("few", "2", step=4, messages=messages)
    turns = opened(url + answer_address("few", step=4)).locator(".conversation article")
    expect(turns).to_have_count(4)
    names = [turn.get_attribute("aria-label") for turn in turns.all()]
    assert names == ["Example: User", "Example: Assistant", "User", "Assistant"]


def test_a_line_of_a_megabyte_is_folded_and_fits(opened, url, run):
    run.say("long", "w" * 1_000_000 + " end", step=4)
    page = opened(url + answer_address("long", step=4), width=390)
    more = page.get_by_role("button", name=re.compile("Show all"))
    assert len(page.locator(".conversation").inner_text()) < 10_000
    more.click()
    expect(page.locator(".conversation")).to_contain_text("characters are left out here")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_an_answer_has_its_turns_its_group_and_what_the_judge_said(opened, url):
    page = opened(url + answer_address("count/1", 1, step=3))
    turns = page.locator(".conversation article")
    expect(turns).to_have_count(5)
    names = [turn.get_attribute("aria-label") for turn in turns.all()]
    assert names == ["System", "User", "Assistant", "Tool", "Assistant"]
    expect(page.locator(".earned")).to_contain_text("reward 1")
    expect(page.get_by_text("Before it was rolled out")).to_be_visible()
    expect(page.locator(".expected")).to_have_text("Expected</pre>4 or five")
    page.get_by_role("link", name="answer 2, no reward, failed").click()
    expect(page.locator(".banner")).to_contain_text("TypeError: no number (my.py, line 3)")
    page.get_by_role("link", name="Step 3").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Step 3")


def test_the_keyboard_moves_through_the_page(opened, url):
    page = opened(f"{url}#/0/prompts")
    page.locator("main .cards li").nth(3).wait_for()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    first = page.locator("main [data-item]").first
    expect(first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Prompt")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    page.keyboard.press("/")
    page.keyboard.type('"answer of step 3"')
    page.keyboard.press("Enter")
    expect(page.locator("main .cards li")).to_have_count(2)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).not_to_be_visible()
    page.keyboard.press("o")
    expect(page).to_have_url(re.compile("#/0$"))


def test_a_run_is_followed_while_it_trains(opened, url, run):
    page = opened(url)
    expect(page.locator(".state")).to_contain_text("step 3")
    add_step(run, 4)
    expect(page.locator(".state")).to_contain_text("step 4", timeout=15_000)
    expect(page.locator("tbody th").first).to_have_text("4")
    chart = page.get_by_role("slider", name="Held-out accuracy")
    expect(chart).to_have_attribute("aria-valuetext", "step 4: 0.600")


def test_light_and_dark_follow_the_system_and_the_switch(opened, url):
    ground = "getComputedStyle(document.body).backgroundColor"
    page = opened(f"{url}#/0", scheme="dark")
    page.get_by_role("button", name="Switch to light").click()
    assert page.evaluate(ground) == "rgb(255, 255, 255)"
    page.reload()
    page.get_by_role("button", name="Switch to dark").click()
    assert page.evaluate(ground) == "rgb(20, 23, 28)"


GONE = {
    "#/7": "No folder has the number 7",
    "#/0/nothing": "names no page",
    "#/0/step/99": "there is no such step",
    "#/0/prompt/gone": "there is no such prompt",
    "#/0/answer/train/1/gone/0": "there is no such answer",
    "#/0/answers?q=nowhere": "No answer is left by these filters.",
}


def test_what_is_not_there_is_said(serve, browser, run):
    url, page = serve(run.path), browser.new_page()
    for address, said in GONE.items():
        page.goto(url + address)
        expect(page.locator("main")).to_contain_text(said)
    page.goto(url)
    page.route("**/overview", lambda route: route.abort())
    alert = page.get_by_role("alert")
    expect(alert).to_have_text(
        "The server does not answer. Start `metis view` again.", timeout=15_000
    )
    page.unroute("**/overview")
    log = run.path / "judgments.jsonl"
    log.write_bytes(log.read_bytes()[:-20] + b"\n")
    page.reload()
    expect(alert).to_contain_text("judgments.jsonl")
    page.close()


def test_a_run_without_answers_or_a_number_of_steps_says_so(opened, serve, tmp_path):
    folder = Folder(tmp_path / "bare")
    (folder.path / "config.json").write_text('{"seed": 0, "curriculum": "metis", "steps": 0}')
    folder.log("metrics", {"step": 31, "eval/accuracy": 0.5})
    page = opened(f"{serve(folder.path)}#/0/answers?kind=eval&step=0")
    expect(page.locator("main")).to_contain_text("No answer was kept in this folder.")
    expect(page.locator(".state")).to_have_text(re.compile("step 31$"))


def test_folders_of_every_kind_are_switched_between(opened, serve, run, tmp_path):
    survey = Folder(tmp_path / "survey")
    survey.log("outcomes", {"prompt": "a", "rewards": [0.0, 0.0], "tokens": [3, 4]})
    survey.say("a", "one", "two", step=0, kind="survey", rewards=[0.0, 0.0])
    page = opened(serve(run.path, survey.path, COMPARISON))
    page.get_by_label("Folder", exact=True).select_option("survey")
    expect(page.get_by_role("heading", level=1)).to_have_text("survey")
    expect(page.locator(".share").first).to_contain_text("of the answers are right")
    page.get_by_label("Folder", exact=True).select_option("dapo-hard")
    expect(page.get_by_role("slider", name="Held-out accuracy")).to_be_visible()
    page.locator(".variant a").first.click()
    expect(page).to_have_url(re.compile("#/3$"))
    expect(page.get_by_role("navigation", name="Pages", exact=True)).to_be_visible()


def test_a_comparison_says_what_is_not_in_its_curve(opened, serve, tmp_path):
    shutil.copytree(COMPARISON, tmp_path / "cmp")
    config = tmp_path / "cmp/readout-1/config.json"
    settings = json.loads(config.read_text())
    settings["engine"]["max_tokens"] = 7
    config.write_text(json.dumps(settings))
    log = tmp_path / "cmp/probe-1/metrics.jsonl.gz"
    rows = gzip.decompress(log.read_bytes()).splitlines(keepends=True)
    log.write_bytes(gzip.compress(b"".join(rows[:5])))
    for each in (tmp_path / "cmp").rglob("*.jsonl.gz"):
        os.utime(each, (0, 0))  # a run whose log was written to just now still trains
    page = opened(serve(tmp_path / "cmp"))
    said = page.locator(".banner")
    expect(said.nth(0)).to_contain_text("readout-1: engine.max_tokens = 7, not 1024")
    expect(said.nth(1)).to_contain_text("probe-1 not finished")
    expect(page.locator(".variant")).to_have_count(5)


def test_advice_to_look_at_answers_leads_to_them(opened, serve, tmp_path):
    strict, constant = Folder(tmp_path / "strict"), Folder(tmp_path / "constant")
    for run, reference in ((strict, "17"), (constant, "")):
        for step in range(1, 13):
            group = {"rewards": [0.0] * 6, "tokens": [10, 11, 12, 13, 14, 15], "failed": 0}
            run.log("rollouts", {"step": step, "prompt": f"{step}/a", **group})
            known = {"rollout/tokens": 75, "rollout/wasted": 75, "rollout/generated": 6}
            run.log("metrics", {"step": step, "batch/informative": 0.0, **known})
            said = {"step": step, "rewards": [0.0] * 6, "reference": reference}
            run.say(f"{step}/a", *["It is 17."] * 6, **said)
    page = opened(serve(strict.path, constant.path))
    page.locator(".finding.advice").get_by_role("link", name="Read it").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Answer 5")
    expect(page.locator(".conversation")).to_contain_text("It is 17.")
    page.get_by_label("Folder", exact=True).select_option(label="constant · metis · seed 0")
    page.locator(".finding.advice").get_by_role("link", name="Read the answers").click()
    expect(page.locator(".pager").first).to_contain_text("72 answers")


def test_a_bundle_opens_without_a_server(opened, run, tmp_path, capsys):
    assert main(["view", str(run.path), "--bundle", str(tmp_path / "page")]) == 0
    page = opened((tmp_path / "page/index.html").as_uri())
    page.get_by_role("link", name="2", exact=True).click()
    page.get_by_role("link", name="Find the product").click()
    page.locator("main .cards li.answer a").first.click()
    expect(page.locator(".conversation")).to_contain_text("I think it is 2.")
    page.keyboard.press("a")
    expect(page.locator("main .cards li")).to_have_count(14)


def test_a_bundle_has_the_pages_of_lists_or_says_which_command_does(
    browser, run, tmp_path, capsys, monkeypatch
):
    for place in range(60):
        run.say(f"held/{place}", "wrong", kind="eval", step=0, rewards=[0.0])
    run.log("metrics", {"step": 0, "eval/accuracy": 0.0})
    monkeypatch.setattr(bundle, "PAGES", 2)
    for place in range(100):
        run.say(f"more/{place}", "right", step=4, rewards=[1.0])
    assert main(["view", str(run.path), "--bundle", str(tmp_path / "page")]) == 0
    page = browser.new_page()
    page.goto((tmp_path / "page/index.html").as_uri())
    page.get_by_role("link", name="0", exact=True).click()
    pager = page.locator(".pager").first
    expect(pager).to_contain_text("60 answers")
    pager.get_by_role("button", name="Next").click()
    expect(page.locator("main .cards li")).to_have_count(10)
    page.get_by_role("button", name="Drop: validation").click()
    page.get_by_role("button", name="Drop: step 0").click()
    page.get_by_label("Reward").select_option("right")
    expect(pager).to_contain_text("106 answers")
    pager.get_by_role("button", name="Next").click()
    expect(pager).to_contain_text("page 2 of 3")
    pager.get_by_role("button", name="Next").click()
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("does not have page 3 of this list")
    expect(alert).to_contain_text("metis view run")
    page.goto((tmp_path / "page/index.html").as_uri() + "#/0/answer/train/3/it's/0")
    expect(alert).to_contain_text("does not have this answer")
    command = page.locator(".command code").inner_text()
    assert shlex.split(command) == ["metis", "inspect", "run", "--answer", "train/3/it's/0"]
    page.close()
