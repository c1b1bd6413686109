"""The page's WebSocket; one that the browser is closing just when the server ends is let go without an exception."""

import contextlib

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState


class Quiet(WebSocketsSansIOProtocol):
    """uvicorn 0.54 sends a close frame at its end without looking whether the browser has sent one: that raises out of its loop."""

    def shutdown(self) -> None:
        """The server ends."""
        with contextlib.suppress(InvalidState):
            super().shutdown()
        self.transport.close()
