"""Decides which gateway a call goes to. Pure: times and random numbers are arguments."""

from __future__ import annotations

_REST = 1.0
_REST_MAX = 30.0


class Rotation:
    """The gateways of a client, by their numbers.

    One gateway is in use until it fails. Then the next one is, and the failed one rests: for about a second at first,
    and for longer each time it fails again. A resting gateway is asked only if all of them rest.
    """

    def __init__(self, gateways: int) -> None:
        self.current = 0
        self._failures = [0] * gateways
        self._rests_until = [0.0] * gateways

    def choose(self, now: float) -> int:
        """The gateway to ask now."""
        count = len(self._failures)
        for step in range(count):
            number = (self.current + step) % count
            if self._rests_until[number] <= now:
                self.current = number
                return number
        return min(range(count), key=lambda number: self._rests_until[number])

    def answered(self, number: int) -> None:
        """Records that a gateway answers."""
        self._failures[number] = 0
        self._rests_until[number] = 0.0

    def failed(self, number: int, now: float, random: float) -> None:
        """Lets a gateway rest that could not answer."""
        self._failures[number] += 1
        rest = min(_REST * 2.0 ** min(self._failures[number] - 1, 16), _REST_MAX)
        self._rests_until[number] = now + rest * (0.5 + random / 2)
        self.turn(number)

    def turn(self, number: int) -> None:
        """Uses the gateway after `number` from now on, unless another call has turned already."""
        if self.current == number:
            self.current = (number + 1) % len(self._failures)
