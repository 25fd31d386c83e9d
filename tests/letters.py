"""A tokenizer of letters, for rows that are worked out by hand."""


class Letters:
    """An engine's encoder for which every letter is a token, and no chat was scored before."""

    separators = ()

    def __init__(self):
        self.scored = {}

    def encode_chat(self, chat):
        return [ord(letter) for letter in self.render(chat)]

    def encode_reply(self, text):
        return [ord(letter) for letter in text]

    def render(self, chat):
        return "".join(message["content"] for message in chat)
