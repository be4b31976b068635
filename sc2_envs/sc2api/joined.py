"""The game of another session, as the player sees it who has its second seat."""

from __future__ import annotations

from typing import Any

from s2clientprotocol import sc2api_pb2 as sc_pb

from sc2_envs.sc2api.network import FoundSeat


class JoinedGame:
    """Hands requests on to the session that has the game, and answers the last ones itself when that has gone.

    A session that goes during the game has lost it, as in StarCraft II when a player's connection is lost. The first
    observation is fetched with the join, so that there is always one, and the last as soon as the game has ended: the
    other side may have quit before it is asked for.

    `status` is the protocol's Status of the joined player: launched before the join and after the game was left.

    Args:
        seat: answers the requests.
    """

    def __init__(self, seat: FoundSeat) -> None:
        self.status: int = sc_pb.launched
        self._seat = seat
        self._gone: Exception | None = None  # why the other side does not answer any more
        self._player = 0
        self._game_loop = 0  # that was stepped to
        self._seen = sc_pb.ResponseObservation()  # the last one
        self._has_final = False  # the game's last observation, which nobody has asked for yet

    def interrupt(self) -> None:
        """Let a request that waits for the other player come back at once; called from another thread."""
        self._seat.interrupt()

    def ask(self, request: Any) -> Any:
        """The Response to a Request.

        Raises:
            ConnectionError, TimeoutError: the other session has gone, and this cannot be answered without it.
        """
        kind = request.WhichOneof("request")
        if self._gone is None:
            if kind == "observation" and self._has_final and not request.observation.disable_fog:
                return self._final_observation()
            try:
                response = self._seat(request)
            except (ConnectionError, TimeoutError) as error:
                if self.status not in (sc_pb.in_game, sc_pb.ended):
                    raise
                self._lose_other(error)
            else:
                self._note(kind, response)
                return response
        return self._answer_alone(kind)

    def _note(self, kind: str, response: Any) -> None:
        has_ended = self.status == sc_pb.in_game and response.status == sc_pb.ended
        self.status = response.status
        if kind == "step":
            self._game_loop = response.step.simulation_loop
        if kind == "observation":
            self._seen = response.observation
        elif kind == "join_game" and self.status == sc_pb.in_game:
            self._player = response.join_game.player_id
            self._look()
        elif has_ended:
            self._has_final = self._look()

    def _look(self) -> bool:
        """Observe the game, which nobody has asked for; whether that was possible."""
        try:
            self._seen = self._seat(sc_pb.Request(observation=sc_pb.RequestObservation())).observation
        except (ConnectionError, TimeoutError) as error:
            self.status = sc_pb.in_game  # how it has ended, if it has, is not known
            self._lose_other(error)
            return False
        return True

    def _lose_other(self, error: Exception) -> None:
        """The other side does not answer any more: who stays in a game has won it."""
        self._gone = error
        if self.status == sc_pb.in_game:
            self.status = sc_pb.ended
            seen, self._seen = self._seen, sc_pb.ResponseObservation()
            self._seen.CopyFrom(seen)  # the client may hold the other one
            self._forget_news()
            del self._seen.player_result[:]
            for player in (1, 2):
                result = sc_pb.Victory if player == self._player else sc_pb.Defeat
                self._seen.player_result.add(player_id=player, result=result)

    def _final_observation(self) -> Any:
        response = sc_pb.Response(status=self.status)
        response.observation.CopyFrom(self._seen)
        self._has_final = False
        self._forget_news()
        return response

    def _forget_news(self) -> None:
        """What an observation tells of the time since the one before."""
        for name in ("actions", "action_errors", "chat"):
            self._seen.ClearField(name)
        del self._seen.observation.alerts[:]

    def _answer_alone(self, kind: str) -> Any:
        """The answer of a game whose other side has gone."""
        response = sc_pb.Response(status=self.status)
        if kind == "observation":
            response = self._final_observation()
        elif kind == "step":
            response.step.simulation_loop = self._game_loop
        elif kind == "leave_game":
            response.leave_game.SetInParent()
            self.status = response.status = sc_pb.launched
        else:
            raise ConnectionError(f"the game that was joined does not answer any more: {self._gone}")
        return response
