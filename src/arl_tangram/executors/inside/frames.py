"""How the host and a warden talk: length-prefixed frames over a stream socket.

To the warden a frame is a marshalled tuple. To the host it is a row of numbers and some byte
strings, so that the host never has to parse more than that of what comes out of an environment.
"""

import marshal

LENGTH = 8
HELLO, RESULT, CRASHED, BORN = 0, 1, 2, 3

KILLED = 1  #: it was told to end
IDLE = 2  #: it was ended because it printed nothing for too long
LEFT = 4  #: processes of it live on in the background
UNKILLABLE = 8  #: some of its processes could not be ended
NEVER_RAN = 16  #: it could not be started; the reason is in the text
SHELL_LOST = 32  #: the shell it ran in has ended

# kind, serial, status, flags, run_us, cpu_us, maxrss_kib, stdout_bytes, stderr_bytes,
# then the lengths of: stdout head, stdout tail, stderr head, stderr tail, reason
NUMBERS = 14
TEXTS = 5


def frame(payload: bytes) -> bytes:
    """The payload with its length before it."""
    return len(payload).to_bytes(LENGTH, "little") + payload


def to_warden(message: tuple[object, ...]) -> bytes:
    """The frame of an order."""
    return frame(marshal.dumps(message))  # type: ignore[arg-type]


def to_host(numbers: list[int], texts: list[bytes]) -> bytes:
    """The frame of a report: the leading numbers, then the texts, whose lengths are added."""
    row = [*numbers, *([0] * (NUMBERS - TEXTS - len(numbers))), *map(len, texts)]
    row += [0] * (NUMBERS - len(row))
    return frame(b"".join([n.to_bytes(8, "little", signed=True) for n in row] + texts))


class Reader:
    """Cuts a stream of bytes into the payloads of frames."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Take in some bytes and return the payloads that are now whole."""
        buffer = self._buffer
        buffer += data
        payloads = []
        while len(buffer) >= LENGTH:
            end = LENGTH + int.from_bytes(buffer[:LENGTH], "little")
            if end > self._most:
                raise ValueError(f"a frame of {end} bytes; {self._most} is the limit")
            if len(buffer) < end:
                break
            payloads.append(bytes(buffer[LENGTH:end]))
            del buffer[:end]
        return payloads
