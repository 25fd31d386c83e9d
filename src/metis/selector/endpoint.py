"""A served model that answers: vLLM's `/pooling`, and chat completions as OpenAI's API has them."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from metis.core import (
    LAST,
    Chat,
    Complete,
    Completion,
    Embed,
    Prompt,
    Request,
    Sampling,
    Trajectory,
)
from metis.errors import MetisError

WIDTH = 16
"""Requests at once."""
SECONDS = 600.0
"""A request that takes longer has failed."""
SHOWN = 200
"""Characters of a server's message that are shown."""


@dataclass
class Endpoint:
    """The URL of a served model.

    url    of the server, without a path, such as http://localhost:8000
    model  its name; by default the first one that the server lists
    key    sent as a bearer token
    name   the argument that gave it, for messages
    """

    url: str
    model: str = ""
    key: str = field(default="", repr=False)
    name: str = "ask"

    def __post_init__(self) -> None:
        self.url = self.url.rstrip("/").removesuffix("/v1")
        if not self.url.startswith(("http://", "https://")):
            raise MetisError(f"{self.name} = {self.url!r}: a URL starts with http:// or https://")

    def require(
        self, name: str, kinds: Sequence[type[Request[Any]]], depths: Sequence[float]
    ) -> None:
        """Refuse a curriculum that a served model cannot answer."""
        for kind in kinds:
            if kind not in (Embed, Complete):
                raise MetisError(
                    f"curriculum = {name!r} asks for {kind.__name__}, which a URL does not "
                    "answer: give ask= a function instead"
                )
        if Embed in kinds and tuple(depths) != LAST:
            raise MetisError(
                f"curriculum = {name!r} reads layers at the depths {', '.join(map(str, depths))}, "
                "but a pooling endpoint has the last one only: set the judge's layer=1, or give "
                "ask= a function instead"
            )

    def answer(self, request: Request[Any], chat_of: Callable[[Prompt], Chat]) -> Any:
        """The reply to a request; `chat_of` is the chat that a prompt stands for."""
        if isinstance(request, Embed):
            asked = [chat_of(x) if isinstance(x, Prompt) else x for x in request.prompts]
            return self._each(self._embed, asked)
        if isinstance(request, Complete):
            return self._each(lambda chat: self._complete(chat, request.sampling), request.chats)
        raise MetisError(f"{self.name} = {self.url!r} does not answer {type(request).__name__}")

    def _each(self, function: Callable[[Chat], Any], chats: Sequence[Chat]) -> list[Any]:
        self.model = self.model or self._first_model()
        with ThreadPoolExecutor(WIDTH) as threads:
            return list(threads.map(function, chats))

    def _first_model(self) -> str:
        path = "/v1/models"
        return str(self._read(path, self._call(path), lambda said: said["data"][0]["id"]))

    def _embed(self, chat: Chat) -> Any:
        """The vector of the last token of a chat, where the model's turn begins."""
        body = {"messages": list(chat), "add_generation_prompt": True, "task": "embed"}
        said = self._call("/pooling", body)
        states = self._read(
            "/pooling", said, lambda said: np.asarray(said["data"][0]["data"], dtype=np.float32)
        )
        return states if states.ndim == 1 else states[-1]

    def _complete(self, chat: Chat, sampling: Sampling) -> Completion:
        path = "/v1/chat/completions"
        body = {
            "messages": list(chat),
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
        }
        said = self._call(path, body | ({"stop": list(sampling.stop)} if sampling.stop else {}))
        choice = self._read(path, said, lambda said: said["choices"][0])
        text = self._read(path, choice, lambda choice: choice["message"]["content"] or "")
        cut = choice.get("finish_reason") == "length"
        return Completion(text, _NO_TOKENS, "length" if cut else "stop")

    def _read(self, path: str, said: Any, part: Callable[[Any], Any]) -> Any:
        try:
            return part(said)
        except (KeyError, IndexError, TypeError, ValueError):
            shown = json.dumps(said)[:SHOWN]
            raise MetisError(
                f"{self.name} = {self.url}{path} answered something else: {shown}"
            ) from None

    def _call(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """The JSON that a path answers; a body is posted, with the model's name."""
        address = self.url + path
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        data = None if body is None else json.dumps({"model": self.model, **body}).encode()
        try:
            call = urllib.request.Request(address, data, headers)
            with urllib.request.urlopen(call, timeout=SECONDS) as reply:
                return json.loads(reply.read())
        except urllib.error.HTTPError as error:
            raise MetisError(_refusal(self.name, address, error)) from None
        except json.JSONDecodeError:
            raise MetisError(f"{self.name} = {address} answered with no JSON") from None
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise MetisError(
                f"{self.name} = {address}: no answer ({reason}); is it served?"
            ) from None


def _refusal(name: str, address: str, error: urllib.error.HTTPError) -> str:
    said = error.read().decode("utf-8", "replace")[:SHOWN]
    text = f"{name} = {address}: HTTP {error.code} {error.reason} ({' '.join(said.split())})"
    if error.code == 404 and address.endswith("/pooling"):
        text += "; vLLM has this path with: vllm serve MODEL --runner pooling --convert embed"
    return text


_NO_TOKENS = Trajectory(
    np.zeros(0, np.int64), np.zeros(0, np.bool_), np.zeros(0, np.float32), policy=0
)
