"""Replies that want to cost time or memory: to parse, to call, or to look at."""

from collections.abc import Iterator


def _filled(head: str, body: str, tail: str, size: int) -> str:
    """A text of about `size` characters."""
    return head + body * ((size - len(head) - len(tail)) // len(body)) + tail


FILLED = {
    "underscores after a fence": ("```", "_", ""),
    "fences": ("", "```", ""),
    "fences and letters": ("", "```a", ""),
    "open fences in thoughts": ("", "```a</think>", ""),
    "ends of thinking": ("", "</think>", "ls()"),
    "backticks": ("x", "`", "x"),
    "a name without an end": ("[", "a", ""),
    "a dotted name": ("[", "a.", "b()]"),
    "blanks after a bracket": ("[", " ", ""),
    "blanks after a name": ("[a", " ", "]"),
    "line ends": ("[ls(", "\n", ")]"),
    "numbers": ("[ls(", "1,", ")]"),
    "numbers and a wrong end": ("[ls(", "1,", "$)]"),
    "numbers and no call": ("[", "1,", "]"),
    "names": ("[ls(", "a,", ")]"),
    "names that are normalised": ("[ls(", "\ufb01,", ")]"),
    "names that are normalised and a wrong end": ("[ls(", "\ufb01,", "$)]"),
    "one name that is normalised": ("[", "\ufdfa", "()]"),
    "lists": ("[ls(", "[],", ")]"),
    "dictionaries": ("[ls(", "{},", ")]"),
    "a dictionary": ("[ls({", "1:1,", "})]"),
    "a call that is none": ("[ls(), {", "1:1,", "}]"),
    "an argument that is no literal": ("[ls(x=[", "y,", "])]"),
    "a function that is no name": ("[ls(), [", "1,", "]()]"),
    "fields of a formatted string": ("[ls(x=f'", "{a}", "')]"),
    "fields and a wrong end": ("[ls(x=f'", "{a}", "' $)]"),
    "formatted strings": ("[ls(x=", "f'{a}'", ")]"),
    "nested fields": ("[ls(x=", "f'{a:{b}}'", ")]"),
    "joined strings": ("[ls(x=", "''", ")]"),
    "wrong escapes": ("[ls(x=", "'\\d'", ")]"),
    "characters by name": ("[ls(x='", "\\N{DIGIT ONE}", "')]"),
    "lone surrogates": ("[ls(x='", "\\ud800", "')]"),
    "null bytes": ("[ls(x='", "\0", "')]"),
    "signs": ("[ls(x=", "-", "1)]"),
    "negations": ("[ls(x=", "not ", "1)]"),
    "a sum": ("[ls(x=", "1+", "1)]"),
    "a comparison": ("[ls(x=", "1<", "1)]"),
    "a conjunction": ("[ls(x=", "a and ", "1)]"),
    "choices": ("[ls(x=", "a if b else ", "c)]"),
    "attributes": ("ls", ".a", "()"),
    "calls of calls": ("ls", "()", ""),
    "items of items": ("ls", "[0]", "()"),
    "opened calls": ("", "f(", ""),
    "opened lists": ("", "[", ""),
    "opened dictionaries": ("f(", "{1:", ""),
    "deep brackets": ("[ls(", "(" * 190 + ")" * 190 + ",", ")]"),
    "deep calls": ("[ls(", "f(" * 190 + ")" * 190 + ",", ")]"),
    "deep dictionaries": ("[ls(", "{1:" * 190 + "1" + "}" * 190 + ",", ")]"),
    "functions": ("[ls(", "lambda:" * 90 + "1,", ")]"),
    "slices": ("[ls(a[", "::,", "])]"),
    "stars": ("[ls(", "*a,", ")]"),
    "double stars": ("[ls(", "**a,", ")]"),
    "assignments": ("[ls(", "(a:=1),", ")]"),
    "a hexadecimal number": ("[ls(0x", "f", ")]"),
    "long numbers": ("[ls(", "9" * 4299 + ",", ")]"),
    "a float": ("[ls(1", "1", ".5)]"),
    "imaginary numbers": ("[ls(", "1+1j,", ")]"),
    "comments": ("[ls(\n", "#\n", ")]"),
    "calls": ("[", "ls(),", "]"),
    "a long argument": ("[echo(content='", "x", "')]"),
    "a long argument, four bytes each": ("[echo(content='", "\U0001f600", "')]"),
}
AROUND = {
    "alone": "{}",
    "in a fence": "```python\n{}\n```",
    "after a thought": "{0}</think>{0}",
    "three times": "{0}</think>{0}</think>```{0}```",
}


def shapes(size: int) -> Iterator[tuple[str, str]]:
    """Replies of about `size` characters, by what they consist of."""
    for around, form in AROUND.items():
        share = size // form.count("0") if "0" in form else size
        for name, (head, body, tail) in FILLED.items():
            if len(body) < share // 4:
                yield f"{name}, {around}", form.format(_filled(head, body, tail, share - 20))
    words = ",".join(f"a{number}=1" for number in range(size // 9))
    yield "keywords", f"[ls({words})]"
    same = ",".join(f"{number * (2**61 - 1)}:1" for number in range(1, size // 25))
    yield "keys of one hash", f"[ls({{{same}}})]"


def _calls(call: str, count: int = 64) -> str:
    return f"[{', '.join([call] * count)}]"


def _numbered(call: str, part: int = 0) -> str:
    return f"[{', '.join(call.format(64 * part + number) for number in range(64))}]"


def _deep(levels: int, name: str) -> list[str]:
    return [_calls(f"mkdir(dir_name='{name}'), cd(folder='{name}')", 32)] * levels


def _doubled(times: int) -> list[str]:
    return [
        f"[cp(source='d{n}', destination='c{n}'), mkdir(dir_name='d{n + 1}'), "
        f"mv(source='d{n}', destination='d{n + 1}'), mv(source='c{n}', destination='d{n + 1}')]"
        for n in range(times)
    ]


_TUPLES = [
    f"[mkdir(dir_name=('{'x' * 15_000}',)), mkdir(dir_name='d0')]",
    f"[mv(source=('{'x' * 7_000}',), destination='d0'), touch(file_name=('{'y' * 7_000}',))]",
]
_LONG = "x" * 15_000
_LINES = "x\\n" * 5000
_LETTERS = "\u4e00" * 15_000
_NUMBER = "f" * 1000
"""A number of 4,000 bits in hexadecimal digits."""
_SYMBOLS = ["AAPL"] * 2000
FILES = {
    "tuples as names": [*_TUPLES, *_doubled(10), _calls("find()")],
    "tuples as destinations": [
        f"[touch(file_name='f'), cp(source='f', destination=('{_LONG}',))]",
        _calls("ls(a=True)"),
        _calls("find()"),
    ],
    "doubled directories": ["[mkdir(dir_name='d0')]", *_doubled(16), _calls("find()")],
    "doubled files": [
        f"[mkdir(dir_name='d0'), cd(folder='d0'), touch(file_name='f'), "
        f"echo(content='{_LONG}', file_name='f'), cd(folder='..')]",
        *_doubled(9),
        _calls("du()"),
    ],
    "a directory in itself": [
        "[mkdir(dir_name='d'), cp(source='d', destination='d')]",
        _calls("cp(source='d', destination='d'), find(), du()", 21),
    ],
    "deep directories": [*_deep(20, "x" * 200), _calls("pwd()"), _calls("find()"), _calls("du()")],
    "deep directories of short names": [*_deep(60, "x"), _calls("pwd()"), _calls("find(path='/')")],
    "many files": [
        *(_numbered("touch(file_name='{}')", part) for part in range(100)),
        _calls("ls()"),
        _calls("find()"),
    ],
    "copies of a full directory": [
        "[mkdir(dir_name='d'), cd(folder='d')]",
        *(_numbered("touch(file_name='{}')", part) for part in range(12)),
        "[cd(folder='..')]",
        *(_numbered("cp(source='d', destination='{}')", part) for part in range(5)),
        _calls("du()"),
    ],
    "a long text": [
        f"[touch(file_name='f'), echo(content='{_LONG}', file_name='f')]",
        _calls("cat(file_name='f')"),
        _calls("sort(file_name='f'), grep(file_name='f', pattern='x'), wc(file_name='f')", 21),
    ],
    "lines": [
        f"[touch(file_name='f'), echo(content='{_LINES}', file_name='f')]",
        _calls("sort(file_name='f'), grep(file_name='f', pattern='x'), tail(file_name='f')", 21),
        _calls("diff(file_name1='f', file_name2='f')"),
    ],
}
TICKETS = {
    "a long user of many tickets": [
        f"[ticket_login(username='{_LONG}', password='x')]",
        *[_calls("create_ticket(title='x')")] * 40,
        _calls("get_user_tickets()"),
    ],
    "a user of many tickets": [
        f"[ticket_login(username='{'x' * 255}', password='x')]",
        *[_calls("create_ticket(title='x')")] * 100,
        _calls("get_user_tickets()"),
    ],
    "a title of many lists": [
        "[ticket_login(username='x', password='x')]",
        *[f"[create_ticket(title=[{'[],' * 5000}])]"] * 5,
        _calls("get_user_tickets()"),
    ],
}
POSTS = {
    "many comments": [
        *[_calls("post_tweet(content='x')", 8)],
        *[_calls("comment(tweet_id=1, comment_content='x')")] * 60,
        _calls("get_tweet_comments(tweet_id=1)"),
    ],
    "many tweets": [
        *[_calls("post_tweet(content='x', tags=['#x'])")] * 60,
        _calls(f"search_tweets(keyword='{'x' * 200}')"),
        _calls("get_user_tweets(username='john')"),
    ],
    "mentions letter by letter": [
        "[post_tweet(content='x')]",
        *[f"[mention(tweet_id=1, mentioned_usernames='{_LETTERS}')]"] * 40,
        _calls("get_tweet(tweet_id=1)"),
    ],
}
TRADES = {
    "many transactions": [
        "[trading_login(username='x', password='x')]",
        *[_calls("fund_account(amount=1)")] * 60,
        _calls("get_transaction_history(start_date='2020-01-01')"),
        _calls("get_transaction_history()"),
    ],
    "many stocks": [
        f"[filter_stocks_by_price(stocks={_SYMBOLS}, min_price=0, max_price=9999)]",
        f"[notify_price_change(stocks={_SYMBOLS}, threshold=0)]",
    ],
}
TRAVELS = {
    "a long date": [
        f"[get_flight_cost(travel_from='SFO', travel_to='LAX', travel_class='first', "
        f"travel_date={date})]"
        for date in (repr("1" * 15_000), repr(("1" * 15_000,)))
    ],
    "a text times a rate": [
        f"[compute_exchange_rate(base_currency='USD', target_currency='JPY', value='{_LONG}')]",
        _calls(
            "compute_exchange_rate(base_currency='USD', target_currency='JPY', value='1111')", 60
        ),
    ],
    "all that is booked": [_calls("get_booking_history(access_token='abc123xyz')")] * 3,
}
NUMBERS = {
    "long numbers": [
        f"[multiply(a=0x{_NUMBER}, b=0x{_NUMBER})]",
        f"[round_number(number=0x{_NUMBER}, decimal_places=-1000)]",
        f"[standard_deviation(numbers=[{'1e308,' * 2000}])]",
        f"[add(a='{'x' * 8000}', b='{'x' * 8000}')]",
    ],
    "longer numbers": [
        f"[multiply(a=0x{8 * _NUMBER}, b=0x{8 * _NUMBER})]",
        f"[round_number(number=0x{8 * _NUMBER}, decimal_places=-1000)]",
    ],
    "precise numbers": [
        _calls("logarithm(value=2, base=3, precision=100)"),
        _calls("square_root(number=2, precision=100)"),
        _calls("power(base=999999999999, exponent=1000)"),
    ],
}
EPISODES = {
    "GorillaFileSystem": FILES,
    "TicketAPI": TICKETS,
    "TwitterAPI": POSTS,
    "TradingBot": TRADES,
    "TravelAPI": TRAVELS,
    "MathAPI": NUMBERS,
}
"""By the API that they call: replies of one episode, the last ones to look at what others left."""
