"""One question ahead: a thread that works on an answer while its asker does something else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Ahead(Generic[Question, Answer]):
    """Answers one question at a time, all of them in the same thread.

    Two queues, since the futures of an executor cost several times as much.
    """

    def __init__(self, answer: Callable[[Question], Answer]) -> None:
        self._answer = answer
        self._questions: SimpleQueue[Question | None] = SimpleQueue()
        self._answers: SimpleQueue[Answer | Exception] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self.asked: Question | None = None
        """The question that is not answered yet."""

    def ask(self, question: Question) -> None:
        """Let the thread begin. An answer that is under way must be fetched first."""
        assert self.asked is None
        if self._thread is None:
            arguments = self._answer, self._questions, self._answers
            self._thread = threading.Thread(target=_work, args=arguments, daemon=True)
            self._thread.start()
        self.asked = question
        self._questions.put(question)

    def fetch(self) -> Answer:
        """Wait for the answer. What the thread raised is raised here."""
        assert self.asked is not None
        answer = self._answers.get()
        self.asked = None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        """End the thread: the interpreter must not end while one is inside of a native library."""
        if self._thread is not None:
            self._questions.put(None)
            self._thread.join()


def _work(
    answer: Callable[[Question], Answer],
    questions: SimpleQueue[Question | None],
    answers: SimpleQueue[Answer | Exception],
) -> None:
    while (question := questions.get()) is not None:
        try:
            answers.put(answer(question))
        except Exception as error:  # noqa: BLE001 - for whoever fetches the answer
            answers.put(error)
